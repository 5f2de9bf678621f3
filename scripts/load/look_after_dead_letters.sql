-- An operator: gives some dead letters another chance and drops the oldest.
-- Expiry is left to the collector's maintenance.
\set queue random(1, 3)
SELECT queue_state.redrive_dead_letters((ARRAY['mail', 'orders', 'reports'])[:queue], 2);
SELECT count(*) FROM queue_state.purge_dead_letters(interval '8 seconds', 10);
