/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Differences between the PostgreSQL versions this extension supports.
 *
 * The only place where a server version is compared.  Each wrapper says what
 * changed in which version.
 *
 *-------------------------------------------------------------------------
 */
#ifndef QS_COMPAT_H
#define QS_COMPAT_H

#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "storage/bufmgr.h"
#include "storage/lock.h"
#include "utils/rel.h"

#if PG_VERSION_NUM < 150000
#error "queue_state needs PostgreSQL 15 or later"
#endif
#if PG_VERSION_NUM >= 190000
#error "queue_state has not been tested with this version of PostgreSQL"
#endif

/* 18 lets a module say its name and version. */
#if PG_VERSION_NUM >= 180000
#define QS_MODULE_MAGIC PG_MODULE_MAGIC_EXT(.name = "queue_state", .version = QS_VERSION)
#else
#define QS_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/* 18 added the instrumentation argument. */
static inline IndexScanDesc
qs_index_beginscan(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

/*
 * 16 made "must index entries be added?" a three-valued answer; none of our
 * indexes is a summarizing one, so a boolean serves.
 */
static inline TM_Result
qs_table_tuple_update(Relation relation, ItemPointer tid, TupleTableSlot *slot,
					  CommandId cid, bool wait, TM_FailureData *failure,
					  bool *insert_index_entries)
{
	LockTupleMode lock_mode;
	TM_Result result;
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes update_indexes;

	result = table_tuple_update(relation, tid, slot, cid, InvalidSnapshot,
								InvalidSnapshot, wait, failure, &lock_mode,
								&update_indexes);
	*insert_index_entries = (update_indexes != TU_None);
#else
	result = table_tuple_update(relation, tid, slot, cid, InvalidSnapshot,
								InvalidSnapshot, wait, failure, &lock_mode,
								insert_index_entries);
#endif
	return result;
}

/* 16 renamed the relation's file. */
static inline bool
qs_read_recent_buffer(Relation relation, BlockNumber block, Buffer buffer)
{
#if PG_VERSION_NUM >= 160000
	return ReadRecentBuffer(relation->rd_locator, MAIN_FORKNUM, block, buffer);
#else
	return ReadRecentBuffer(relation->rd_node, MAIN_FORKNUM, block, buffer);
#endif
}

/* 17 added a third argument: whether a stronger lock will do. */
static inline bool
qs_lock_held_by_me(const LOCKTAG *tag, LOCKMODE mode)
{
#if PG_VERSION_NUM >= 170000
	return LockHeldByMe(tag, mode, false);
#else
	return LockHeldByMe(tag, mode);
#endif
}

#endif /* QS_COMPAT_H */
