/*
 * lease_test.c
 *	  Every event in every state, for each way the collector may be run.
 */
#include "tap.h"

#include "lease.h"

/* One expected transition; what a table does not name must change nothing. */
struct expectation
{
	enum lease_state from;
	enum lease_event event;
	enum lease_state to;
	unsigned int actions;
	enum lease_wait wait;
};

static const char *const event_names[] = {
	[LEASE_UNREACHABLE] = "unreachable",
	[LEASE_CONNECTED] = "connected",
	[LEASE_REFUSED] = "refused",
	[LEASE_BUSY] = "busy",
	[LEASE_GRANTED] = "granted",
	[LEASE_REFRESHED] = "refreshed",
	[LEASE_REFRESH_FAILED] = "refresh failed",
	[LEASE_LOST] = "lost",
	[LEASE_STOPPED] = "stopped"
};

#define EVENT_COUNT (LEASE_STOPPED + 1)

/* A machine in this state, by the way it gets there. */
static struct lease
machine_in(enum lease_state state, bool enabled, bool exit_on_failure)
{
	struct lease lease;

	lease_init(&lease, enabled, exit_on_failure);
	if (state >= LEASE_STANDBY)
		lease_step(&lease, LEASE_CONNECTED, LOSS_CONNECTION);
	if (state == LEASE_LEADER)
		lease_step(&lease, LEASE_GRANTED, LOSS_CONNECTION);
	if (state == LEASE_ENDED)
		lease_step(&lease, LEASE_STOPPED, LOSS_CONNECTION);
	return lease;
}

static void
check(const char *mode, bool enabled, bool exit_on_failure,
	  const struct expectation *table, size_t count)
{
	for (enum lease_state state = LEASE_CONNECTING; state <= LEASE_ENDED; state++)
	{
		for (enum lease_event event = 0; event < EVENT_COUNT; event++)
		{
			struct lease lease = machine_in(state, enabled, exit_on_failure);
			struct lease_answer answer;
			struct expectation expected = {
				state, event, state, 0,
				state == LEASE_ENDED  ? LEASE_WAIT_NONE :
				state == LEASE_LEADER ? LEASE_WAIT_INTERVAL :
										LEASE_WAIT_RETRY
			};

			for (size_t i = 0; i < count; i++)
			{
				if (table[i].from == state && table[i].event == event)
					expected = table[i];
			}
			answer = lease_step(&lease, event, LOSS_LOCK);
			if (!ok(lease.state == expected.to &&
						answer.actions == expected.actions &&
						answer.wait == expected.wait,
					"%s: %s, %s -> %s", mode, lease_state_name(state),
					event_names[event], lease_state_name(expected.to)))
				printf("# got %s, actions %x, wait %d; expected actions %x, wait %d\n",
					   lease_state_name(lease.state), answer.actions,
					   (int) answer.wait, expected.actions, (int) expected.wait);
		}
	}
}

#define STEP_DOWN (LEASE_WITHDRAW | LEASE_COUNT_LOST | LEASE_DISCONNECT)

/* What every way of running has in common. */
#define COMMON                                                                                           \
	{ LEASE_CONNECTING, LEASE_CONNECTED, LEASE_STANDBY, 0, LEASE_WAIT_NONE },                            \
		{ LEASE_CONNECTING, LEASE_UNREACHABLE, LEASE_CONNECTING, LEASE_DISCONNECT, LEASE_WAIT_BACKOFF }, \
		{ LEASE_CONNECTING, LEASE_LOST, LEASE_CONNECTING, LEASE_DISCONNECT, LEASE_WAIT_BACKOFF },        \
		{ LEASE_CONNECTING, LEASE_STOPPED, LEASE_ENDED, LEASE_DISCONNECT, LEASE_WAIT_NONE },             \
		{ LEASE_STANDBY, LEASE_CONNECTED, LEASE_STANDBY, 0, LEASE_WAIT_NONE },                           \
		{ LEASE_STANDBY, LEASE_GRANTED, LEASE_LEADER, LEASE_COUNT_ACQUIRED, LEASE_WAIT_NONE },           \
		{ LEASE_STANDBY, LEASE_UNREACHABLE, LEASE_CONNECTING, LEASE_DISCONNECT, LEASE_WAIT_BACKOFF },    \
		{ LEASE_STANDBY, LEASE_LOST, LEASE_CONNECTING, LEASE_DISCONNECT, LEASE_WAIT_BACKOFF },           \
	{                                                                                                    \
		LEASE_STANDBY, LEASE_STOPPED, LEASE_ENDED, LEASE_DISCONNECT, LEASE_WAIT_NONE                     \
	}

int
main(void)
{
	static const struct expectation with_exit[] = {
		COMMON,
		{ LEASE_LEADER, LEASE_REFRESH_FAILED, LEASE_ENDED,
		  STEP_DOWN | LEASE_EXIT_FAILED, LEASE_WAIT_NONE },
		{ LEASE_LEADER, LEASE_LOST, LEASE_CONNECTING, STEP_DOWN, LEASE_WAIT_YIELD },
		{ LEASE_LEADER, LEASE_STOPPED, LEASE_ENDED, STEP_DOWN, LEASE_WAIT_NONE }
	};
	static const struct expectation with_demote[] = {
		COMMON,
		{ LEASE_LEADER, LEASE_REFRESH_FAILED, LEASE_CONNECTING,
		  STEP_DOWN, LEASE_WAIT_YIELD },
		{ LEASE_LEADER, LEASE_LOST, LEASE_CONNECTING, STEP_DOWN, LEASE_WAIT_YIELD },
		{ LEASE_LEADER, LEASE_STOPPED, LEASE_ENDED, STEP_DOWN, LEASE_WAIT_NONE }
	};
	static const struct expectation without_lease[] = {
		COMMON,
		{ LEASE_LEADER, LEASE_REFRESH_FAILED, LEASE_CONNECTING, LEASE_DISCONNECT, LEASE_WAIT_BACKOFF },
		{ LEASE_LEADER, LEASE_LOST, LEASE_CONNECTING, LEASE_DISCONNECT, LEASE_WAIT_BACKOFF },
		{ LEASE_LEADER, LEASE_STOPPED, LEASE_ENDED, STEP_DOWN, LEASE_WAIT_NONE }
	};
	static const LossReason passed_on[] = {
		LOSS_CONNECTION, LOSS_LOCK, LOSS_RECOVERY, LOSS_FENCE
	};
	struct lease lease;
	struct lease_answer answer;

	check("exit", true, true, with_exit, sizeof(with_exit) / sizeof(with_exit[0]));
	check("demote", true, false, with_demote, sizeof(with_demote) / sizeof(with_demote[0]));
	check("no lease", false, true, without_lease,
		  sizeof(without_lease) / sizeof(without_lease[0]));

	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
	{
		lease = machine_in(LEASE_LEADER, true, true);
		answer = lease_step(&lease, LEASE_LOST, passed_on[i]);
		is_int(answer.reason, passed_on[i], "the reason of a loss is passed on");
	}
	lease = machine_in(LEASE_LEADER, true, true);
	answer = lease_step(&lease, LEASE_REFRESH_FAILED, LOSS_LOCK);
	is_int(answer.reason, LOSS_REFRESH, "a failed refresh is its own reason");
	lease = machine_in(LEASE_LEADER, true, true);
	answer = lease_step(&lease, LEASE_STOPPED, LOSS_LOCK);
	is_int(answer.reason, LOSS_SHUTDOWN, "so is a stop");

	lease = machine_in(LEASE_LEADER, true, false);
	lease_step(&lease, LEASE_LOST, LOSS_LOCK);
	lease_step(&lease, LEASE_CONNECTED, LOSS_LOCK);
	answer = lease_step(&lease, LEASE_GRANTED, LOSS_LOCK);
	is_int(answer.actions, LEASE_COUNT_ACQUIRED, "a lease taken again is counted again");

	lease = machine_in(LEASE_LEADER, false, true);
	lease_step(&lease, LEASE_REFRESH_FAILED, LOSS_LOCK);
	answer = lease_step(&lease, LEASE_STOPPED, LOSS_LOCK);
	is_int(answer.actions, STEP_DOWN,
		   "without a lease a stop between two sessions still withdraws");
	lease = machine_in(LEASE_LEADER, false, true);
	lease_step(&lease, LEASE_LOST, LOSS_LOCK);
	lease_step(&lease, LEASE_CONNECTED, LOSS_LOCK);
	answer = lease_step(&lease, LEASE_GRANTED, LOSS_LOCK);
	is_int(answer.actions, 0, "without a lease a new session is no new acquisition");
	return tap_done();
}
