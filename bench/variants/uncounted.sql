--
-- uncounted.sql: the message tables without a single trigger.
--
-- Dropped rather than disabled: a trigger that is disabled still makes the
-- executor collect its transition table.  The triggers of the foreign key
-- cannot be dropped without it; its check of inserted rows is disabled.
--

DO $$
DECLARE
	t record;
BEGIN
	FOR t IN
		SELECT tgrelid::regclass AS relation, tgname AS name, tgisinternal AS internal
		FROM pg_trigger
		WHERE tgrelid IN ('queue_state.queue_message'::regclass,
						  'queue_state.queue_dead_letter_message'::regclass)
	LOOP
		IF t.internal THEN
			EXECUTE format('ALTER TABLE %s DISABLE TRIGGER %I', t.relation, t.name);
		ELSE
			EXECUTE format('DROP TRIGGER %I ON %s', t.name, t.relation);
		END IF;
	END LOOP;
END
$$;
