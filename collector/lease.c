/*
 * lease.c
 *	  Who leads: connecting, standby, leader, as a pure step function.
 *
 *	connecting --connected--> standby --granted--> leader
 *	     ^                       |                   |
 *	     +-----------lost--------+-------lost--------+
 *
 * An event that has no meaning in a state (a late answer, say) changes
 * nothing and asks for a retry, so that the machine can never stand still.
 */
#include "lease.h"

void
lease_init(struct lease *lease, bool enabled, bool exit_on_failure)
{
	lease->state = LEASE_CONNECTING;
	lease->enabled = enabled;
	lease->exit_on_failure = exit_on_failure;
	lease->leads = false;
}

/* Leadership ends: the series go first, then the session and with it the lock. */
static struct lease_answer
step_down(struct lease *lease, enum lease_state state, enum lease_wait wait,
		  LossReason reason)
{
	struct lease_answer answer = {
		.actions = LEASE_WITHDRAW | LEASE_COUNT_LOST | LEASE_DISCONNECT,
		.wait = wait,
		.reason = reason
	};

	lease->leads = false;
	lease->state = state;
	return answer;
}

static struct lease_answer
move(struct lease *lease, enum lease_state state, unsigned int actions,
	 enum lease_wait wait)
{
	struct lease_answer answer = { .actions = actions, .wait = wait };

	lease->state = state;
	return answer;
}

static struct lease_answer
step_leader(struct lease *lease, enum lease_event event, LossReason reason)
{
	switch (event)
	{
		case LEASE_REFRESHED:
			return move(lease, LEASE_LEADER, 0, LEASE_WAIT_INTERVAL);

		case LEASE_REFRESH_FAILED:

			/*
			 * Without a lease nobody else could export anything: keep the
			 * last snapshot, whose age shows what happened.
			 */
			if (!lease->enabled)
				return move(lease, LEASE_CONNECTING, LEASE_DISCONNECT,
							LEASE_WAIT_BACKOFF);
			if (lease->exit_on_failure)
			{
				struct lease_answer answer =
					step_down(lease, LEASE_ENDED, LEASE_WAIT_NONE, LOSS_REFRESH);

				answer.actions |= LEASE_EXIT_FAILED;
				return answer;
			}
			return step_down(lease, LEASE_CONNECTING, LEASE_WAIT_YIELD,
							 LOSS_REFRESH);

		case LEASE_LOST:
			if (!lease->enabled)
				return move(lease, LEASE_CONNECTING, LEASE_DISCONNECT,
							LEASE_WAIT_BACKOFF);

			/*
			 * The session that lost its lock is not trusted to take it again;
			 * a new one is made, after every standby had its turn.
			 */
			return step_down(lease, LEASE_CONNECTING, LEASE_WAIT_YIELD, reason);

		default:
			return move(lease, LEASE_LEADER, 0, LEASE_WAIT_INTERVAL);
	}
}

struct lease_answer
lease_step(struct lease *lease, enum lease_event event, LossReason reason)
{
	if (lease->state == LEASE_ENDED)
		return move(lease, LEASE_ENDED, 0, LEASE_WAIT_NONE);

	if (event == LEASE_STOPPED)
	{
		/* Without a lease the leader may be between two sessions. */
		if (lease->leads)
			return step_down(lease, LEASE_ENDED, LEASE_WAIT_NONE, LOSS_SHUTDOWN);
		return move(lease, LEASE_ENDED, LEASE_DISCONNECT, LEASE_WAIT_NONE);
	}

	if (lease->state == LEASE_LEADER)
		return step_leader(lease, event, reason);

	switch (event)
	{
		case LEASE_CONNECTED:
			return move(lease, LEASE_STANDBY, 0, LEASE_WAIT_NONE);

		case LEASE_GRANTED:
			if (lease->state == LEASE_STANDBY)
			{
				unsigned int actions = lease->leads ? 0 : LEASE_COUNT_ACQUIRED;

				lease->leads = true;
				return move(lease, LEASE_LEADER, actions, LEASE_WAIT_NONE);
			}
			break;

		case LEASE_UNREACHABLE:
		case LEASE_LOST:
			return move(lease, LEASE_CONNECTING, LEASE_DISCONNECT,
						LEASE_WAIT_BACKOFF);

		default:
			break;
	}
	return move(lease, lease->state, 0, LEASE_WAIT_RETRY);
}

const char *
lease_state_name(enum lease_state state)
{
	switch (state)
	{
		case LEASE_CONNECTING:
			return "connecting";
		case LEASE_STANDBY:
			return "standby";
		case LEASE_LEADER:
			return "leader";
		case LEASE_ENDED:
			break;
	}
	return "ended";
}
