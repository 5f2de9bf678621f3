/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  Prepared statements that no statistics can spoil; see plan.h.
 *
 * A plan chosen by cost is wrong for a queue in both ways: planning anew on
 * each call costs more than the work, and a plan made while the table looked
 * empty scans all of it later.  So each statement gets one generic plan, made
 * with every kind of path switched off but the one it is written for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/snapmgr.h"

#include "catalog.h"
#include "plan.h"

static void prepare(Statement *statement, Oid message);
static bool has_current_plan(SPIPlanPtr plan);
static void make_plan(Statement *statement);
static void execute(Statement *statement, Datum *values, const char *nulls,
					bool latest);

void
qs_execute(Statement *statement, Datum *values, const char *nulls)
{
	execute(statement, values, nulls, false);
}

void
qs_execute_latest(Statement *statement, Datum *values, const char *nulls)
{
	execute(statement, values, nulls, IsolationUsesXactSnapshot());
}

static void
execute(Statement *statement, Datum *values, const char *nulls, bool latest)
{
	Oid message = qs_catalog()->message;
	int guc_level = 0;
	int result;

	if (statement->plan == NULL || statement->message != message)
		prepare(statement, message);
	if (!has_current_plan(statement->plan))
		make_plan(statement);

	/* The one setting that would overrule CURSOR_OPT_GENERIC_PLAN. */
	if (plan_cache_mode == PLAN_CACHE_MODE_FORCE_CUSTOM_PLAN)
	{
		guc_level = NewGUCNestLevel();
		(void) set_config_option("plan_cache_mode", "force_generic_plan",
								 PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	}

	if (latest)
		result = SPI_execute_snapshot(statement->plan, values, nulls,
									  GetLatestSnapshot(), InvalidSnapshot,
									  false, true, 0);
	else
		result = SPI_execute_plan(statement->plan, values, nulls, false, 0);

	if (guc_level != 0)
		AtEOXact_GUC(true, guc_level);

	if (result != statement->result)
		elog(ERROR, "unexpected SPI result %s of: %s",
			 SPI_result_code_string(result), statement->text);
}

Datum
qs_tid_array(ItemPointerData *tids, int count)
{
	Datum *elements = palloc(count * sizeof(Datum));

	for (int i = 0; i < count; i++)
		elements[i] = PointerGetDatum(&tids[i]);
	return PointerGetDatum(construct_array(elements, count, TIDOID,
										   sizeof(ItemPointerData), false,
										   TYPALIGN_SHORT));
}

static Oid
argument_oid(ArgumentType argument)
{
	switch (argument)
	{
		case ARGUMENT_INT4:
			return INT4OID;
		case ARGUMENT_TEXT:
			return TEXTOID;
		case ARGUMENT_JSONB:
			return JSONBOID;
		case ARGUMENT_UUID:
			return UUIDOID;
		case ARGUMENT_TIMESTAMPTZ:
			return TIMESTAMPTZOID;
		case ARGUMENT_TID_ARRAY:
			return TIDARRAYOID;
		case ARGUMENT_UUID_ARRAY:
			return UUIDARRAYOID;
		case ARGUMENT_JSONB_ARRAY:
			return JSONBARRAYOID;
		case ARGUMENT_PRIORITY:
			return qs_catalog()->priority_type;
		case ARGUMENT_STATE:
		{
			const Catalog *catalog = qs_catalog();

			return get_atttype(catalog->message,
							   catalog->message_column.state);
		}
	}
	elog(ERROR, "unknown argument type %d", (int) argument);
}

/*
 * After DROP EXTENSION and CREATE EXTENSION the types are others, so the old
 * plan cannot be revalidated: it is made again from the text.
 */
static void
prepare(Statement *statement, Oid message)
{
	Oid types[STATEMENT_MAX_ARGUMENTS];
	SPIPlanPtr plan;

	if (statement->plan != NULL)
	{
		plan = statement->plan;
		statement->plan = NULL;
		SPI_freeplan(plan);
	}

	for (int i = 0; i < statement->argument_count; i++)
		types[i] = argument_oid(statement->argument[i]);

	plan = SPI_prepare_cursor(statement->text, statement->argument_count,
							  types, CURSOR_OPT_GENERIC_PLAN);
	if (plan == NULL)
		elog(ERROR, "could not prepare (%s): %s",
			 SPI_result_code_string(SPI_result), statement->text);
	if (SPI_keepplan(plan) != 0)
		elog(ERROR, "could not keep the plan of: %s", statement->text);
	statement->plan = plan;
	statement->message = message;
}

/*
 * Would executing it use the plan it has?  (SPI_plan_is_valid() only says
 * whether the analyzed query is valid.)
 */
static bool
has_current_plan(SPIPlanPtr plan)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));
	CachedPlan *current = source->gplan;

	return source->is_valid && current != NULL && current->is_valid &&
		   (!TransactionIdIsValid(current->saved_xmin) ||
			TransactionIdEquals(current->saved_xmin, TransactionXmin));
}

static void
make_plan(Statement *statement)
{
	static const char *const settings[][2] = {
		{ "plan_cache_mode", "force_generic_plan" },
		{ "enable_seqscan", "off" },
		{ "enable_bitmapscan", "off" },
		{ "enable_hashjoin", "off" },
		{ "enable_mergejoin", "off" },
		{ "enable_material", "off" },
		{ "enable_indexscan", "on" },
		{ "enable_tidscan", "on" },
		{ "enable_nestloop", "on" },
		{ "jit", "off" },
	};
	int guc_level = NewGUCNestLevel();
	CachedPlan *plan;

	for (size_t i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1],
								 PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);

	plan = SPI_plan_get_cached_plan(statement->plan);
	if (plan == NULL)
		elog(ERROR, "could not plan: %s", statement->text);
	ReleaseCachedPlan(plan, CurrentResourceOwner);

	AtEOXact_GUC(true, guc_level);
}
