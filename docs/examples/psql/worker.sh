#!/bin/bash
#
# worker.sh QUEUE: a worker made of psql, for a shell or a cron job.
#
# The connection comes from the usual PG* variables.  SIGTERM ends it after
# the message in hand.

set -u
queue=${1:?usage: worker.sh QUEUE}
here=$(cd "$(dirname "$0")" && pwd)
stop=

trap 'stop=1' TERM INT

# The wait is in the background so that a signal ends it at once.
pause()
{
	sleep "$1" &
	wait $!
}

while [ -z "$stop" ]; do
	# setsid: a Ctrl-C at the terminal is for this loop, and not for the
	# transaction that psql is in the middle of.
	if ! outcome=$(setsid -w psql -X -q -A -t -v queue="$queue" -f "$here/one_message.sql"); then
		echo "no connection; trying again" >&2
		pause 5
	elif [ -z "$outcome" ]; then
		pause 1
	else
		echo "$outcome"
	fi
done
echo "stopped"
