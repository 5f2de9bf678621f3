-- Five messages, one by one, in one transaction.
BEGIN;
SELECT queue_state.enqueue('bench', '{"order": 4711, "customer": "c-90210", "total": "129.90", "note": "deliver before noon"}');
SELECT queue_state.enqueue('bench', '{"order": 4711, "customer": "c-90210", "total": "129.90", "note": "deliver before noon"}');
SELECT queue_state.enqueue('bench', '{"order": 4711, "customer": "c-90210", "total": "129.90", "note": "deliver before noon"}');
SELECT queue_state.enqueue('bench', '{"order": 4711, "customer": "c-90210", "total": "129.90", "note": "deliver before noon"}');
SELECT queue_state.enqueue('bench', '{"order": 4711, "customer": "c-90210", "total": "129.90", "note": "deliver before noon"}');
COMMIT;
