/*-------------------------------------------------------------------------
 *
 * module.c
 *	  What happens when the library is loaded.
 *
 * The library need not be preloaded: the first trigger or function of a
 * session loads it, and no shared memory is used.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "compat.h"
#include "transaction.h"

QS_MODULE_MAGIC;

void _PG_init(void);

void
_PG_init(void)
{
	qs_transaction_init();
}
