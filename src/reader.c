/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Reading the rollup; see reader.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "catalog.h"
#include "reader.h"
#include "rollup.h"
#include "transaction.h"

/*
 * The snapshot to begin a scan with.  An MVCC snapshot in a SERIALIZABLE
 * transaction would leave predicate locks on rows that every message
 * transaction changes.  SnapshotAny leaves none, and qs_row_is_visible() then
 * makes the choice.
 */
Snapshot
qs_reading_snapshot(Snapshot snapshot)
{
	return IsolationIsSerializable() ? SnapshotAny : snapshot;
}

bool
qs_row_is_visible(Relation relation, TupleTableSlot *slot, Snapshot snapshot)
{
	return !IsolationIsSerializable() ||
		   table_tuple_satisfies_snapshot(relation, slot, snapshot);
}

static void
read_table(Oid relid, Snapshot snapshot, RollupReader reader, void *arg)
{
	Relation relation = table_open(relid, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	TableScanDesc scan = table_beginscan(relation, qs_reading_snapshot(snapshot), 0, NULL);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		ShardKey key;
		Counters counters;

		CHECK_FOR_INTERRUPTS();

		if (!qs_row_is_visible(relation, slot, snapshot))
			continue;

		key = qs_rollup_row_key(slot);
		qs_rollup_row_counters(slot, &counters);
		reader(&key, &counters, arg);
	}

	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(relation, AccessShareLock);
}

void
qs_read_rollup(Snapshot snapshot, RollupReader reader, void *arg)
{
	const DeltaStack *unapplied = qs_unapplied_deltas();
	Oid shard = qs_catalog()->shard;
	Oid pending = qs_catalog()->pending;
	Delta *deltas = NULL;
	int count = 0;

	/* A copy, taken first: `reader` may add to the stack. */
	if (unapplied != NULL)
		count = qs_delta_sum(unapplied, &deltas);

	read_table(shard, snapshot, reader, arg);
	read_table(pending, snapshot, reader, arg);
	for (int i = 0; i < count; i++)
		reader(&deltas[i].key, &deltas[i].change, arg);

	if (deltas != NULL)
		pfree(deltas);
}
