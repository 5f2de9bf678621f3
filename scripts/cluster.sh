# shellcheck shell=bash
#-------------------------------------------------------------------------
#
# cluster.sh
#	  Private PostgreSQL clusters: a data directory of their own, run by the
#	  ordinary user, reached through a Unix socket alone.  Sourced after
#	  common.sh; no other cluster of the machine is touched.
#
#	cluster_create DIRECTORY [SETTING=VALUE ...]
#	cluster_start DIRECTORY
#	cluster_stop DIRECTORY [MODE]
#
# DIRECTORY belongs to the ordinary user.  It gets data/ and postgresql.log.
# The socket is in a directory with a short name in /tmp, whose path must fit
# into 107 bytes with the socket's name, wherever the clone is;
# cluster_start sets PGHOST, PGPORT, PGUSER and PGDATABASE to it.
#
#-------------------------------------------------------------------------

cluster_create()
{
	local directory=$1 setting

	shift
	as_user "$(server_programs)/initdb" --no-sync --pgdata "$directory/data" \
		--username postgres --auth trust --encoding UTF8 --no-locale \
		>"$directory/initdb.log" ||
		die "initdb failed: $(cat "$directory/initdb.log")"
	{
		echo "listen_addresses = ''"
		echo "unix_socket_permissions = 0700"
		for setting in "$@"; do
			echo "${setting%%=*} = '${setting#*=}'"
		done
	} >>"$directory/data/postgresql.conf"
}

cluster_start()
{
	local directory=$1 socket

	socket=$(mktemp -d /tmp/qs.XXXXXX)
	[ "$(id -u)" != 0 ] || chown "$(ordinary_user):" "$socket"
	echo "$socket" >"$directory/socket"
	as_user "$(server_programs)/pg_ctl" start --wait --silent \
		--pgdata "$directory/data" --log "$directory/postgresql.log" \
		--options "-k $socket" </dev/null ||
		die "the server did not start: $(tail -n 20 "$directory/postgresql.log")"
	export PGHOST=$socket PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
}

# By its pid, which pg_ctl takes from the data directory.  No complaint if it
# does not run, or never did.
cluster_stop()
{
	local directory=$1 mode=${2:-fast}

	if [ -s "$directory/data/postmaster.pid" ]; then
		as_user "$(server_programs)/pg_ctl" stop --wait --timeout 30 --silent \
			--mode "$mode" --pgdata "$directory/data" || true
	fi
	if [ -s "$directory/socket" ]; then
		rm -rf "$(cat "$directory/socket")"
		rm -f "$directory/socket"
	fi
}
