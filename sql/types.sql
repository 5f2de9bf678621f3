--
-- types.sql: the two enums every other part speaks in.
--
-- Enum order is the sort order of the indexes, so LOW < MEDIUM < HIGH and a
-- consumer reads priorities downwards.
--

CREATE TYPE queue_state.message_priority AS ENUM ('LOW', 'MEDIUM', 'HIGH');
COMMENT ON TYPE queue_state.message_priority IS
'urgency of a message; a consumer is given HIGH before MEDIUM before LOW';

CREATE TYPE queue_state.message_state AS ENUM ('READY', 'IN_FLIGHT', 'DELAYED');
COMMENT ON TYPE queue_state.message_state IS
'physical state of a message: what is written in its row, before time is taken into account';
