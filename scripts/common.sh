# shellcheck shell=bash
#-------------------------------------------------------------------------
#
# common.sh
#	  What the scripts share: where things are, who runs what, work directories.
#	  Sourced by bash scripts; sets ROOT and changes to it.
#
#-------------------------------------------------------------------------

set -o errexit -o nounset -o pipefail
umask 022

# shellcheck disable=SC2034	# used by the scripts that source this one
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"

# Says it, and why it matters, on standard error; ends the script.
die()
{
	echo "${0##*/}: $*" >&2
	exit 1
}

# Can we become root without asking anybody who is not there?
may_become_root()
{
	[ "$(id -u)" = 0 ] && return
	command -v sudo >/dev/null || return
	sudo -n true 2>/dev/null || [ -t 0 ]
}

as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# The server refuses to run as root, so root's clusters belong to the user that
# Debian's package makes; anybody else's are their own.
ordinary_user()
{
	if [ "$(id -u)" != 0 ]; then
		id -un
	elif id postgres >/dev/null 2>&1; then
		echo postgres
	else
		echo nobody
	fi
}

# Runs a program as the ordinary user.
as_user()
{
	(exec_as_user "$@")
}

# The same in the place of this process: no other stands between, so that the
# pid of `exec_as_user program &` is the program's.
exec_as_user()
{
	local user

	[ "$(id -u)" = 0 ] || exec "$@"
	user=$(ordinary_user)
	exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups \
		env HOME=/nonexistent USER="$user" LOGNAME="$user" "$@"
}

# pg_config of the server to build for: $PG_CONFIG, which defaults to the one
# in the PATH.  Fails if there is none that can build an extension.
find_pg_config()
{
	local candidate

	candidate=$(command -v "${PG_CONFIG:-pg_config}") || return
	[ -f "$("$candidate" --pgxs 2>/dev/null)" ] || return
	echo "$candidate"
}

# The directory of the server's programs.
server_programs()
{
	"$PG_CONFIG" --bindir
}

# make_work_directory NAME
#
# An empty directory that the ordinary user owns and can reach: $ROOT/NAME, or,
# if the clone lies where that user may not go, one in /tmp that $ROOT/NAME
# links to.  Prints its path.
make_work_directory()
{
	local name=$1 directory

	remove_work_directory "$name"
	directory=$ROOT/$name
	mkdir "$directory"
	if [ "$(id -u)" = 0 ]; then
		chown "$(ordinary_user):" "$directory"
		if ! (cd / && as_user test -w "$directory"); then
			rmdir "$directory"
			directory=$(mktemp -d /tmp/queue_state.XXXXXX)
			chown "$(ordinary_user):" "$directory"
			ln -s "$directory" "$ROOT/$name"
			echo "$(ordinary_user) cannot reach $ROOT: working in $directory" >&2
		fi
	fi
	echo "$directory"
}

remove_work_directory()
{
	local name=$1

	if [ -L "$ROOT/$name" ]; then
		rm -rf "$(readlink "$ROOT/$name")"
	fi
	rm -rf "${ROOT:?}/$name"
}

# build_and_install
#
# Builds both halves and installs the extension for the server of PG_CONFIG,
# which is set to the full path of one.  Says so when it needs to become root.
build_and_install()
{
	local pg_config

	# the make that called us has a job server and a level of its own
	unset MAKEFLAGS MFLAGS MAKELEVEL
	pg_config=$(find_pg_config) ||
		die "${PG_CONFIG:-pg_config} cannot build extensions; is the server's development package installed?"
	export PG_CONFIG=$pg_config
	make --silent --jobs=2 all || die 'the build failed'
	if installed_is_current; then
		return
	fi
	may_become_root ||
		die "installing the extension needs root or sudo: make install PG_CONFIG=$PG_CONFIG"
	as_root make --silent install PG_CONFIG="$PG_CONFIG" >/dev/null ||
		die 'the installation failed'
}

installed_is_current()
{
	local extension

	extension=$("$PG_CONFIG" --sharedir)/extension
	cmp --quiet queue_state.so "$("$PG_CONFIG" --pkglibdir)/queue_state.so" &&
		cmp --quiet queue_state.control "$extension/queue_state.control" &&
		for script in queue_state--*.sql; do
			cmp --quiet "$script" "$extension/$script" || return
		done
}
