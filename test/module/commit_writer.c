/*
 * commit_writer.c
 *	  Runs a statement in a callback at commit or prepare, as other extensions
 *	  may.
 *
 *	LOAD '.../commit_writer';
 *	SET commit_writer.statement = 'SELECT ...';
 *
 * Callbacks are called in the reverse order of their registration: loaded before
 * queue_state, the statement runs after the counters were applied; loaded after
 * it, before.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static char *statement;

static void
run_statement(XactEvent event, void *arg)
{
	if ((event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PRE_PREPARE) ||
		statement[0] == '\0')
		return;
	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT || SPI_execute(statement, false, 0) < 0)
		elog(ERROR, "could not run \"%s\"", statement);
	SPI_finish();
	PopActiveSnapshot();
}

void
_PG_init(void)
{
	DefineCustomStringVariable("commit_writer.statement",
							   "Statement that is run before a transaction ends.", NULL,
							   &statement, "", PGC_USERSET, 0, NULL, NULL, NULL);
	RegisterXactCallback(run_statement, NULL);
}
