// worker.js QUEUE: a worker made with node-postgres.
//
// The connection comes from the usual PG* variables.  SIGTERM and SIGINT end
// it after the message in hand; what it has leased and not begun goes back.

import pg from 'pg';

const BATCH = 10;
const IDLE_MS = 1000;
const RECONNECT_MS = 5000;

// The work failed in a way that no retry will change.
class Poison extends Error {}

let stopping = false;
let wake = () => {};
for (const signal of ['SIGTERM', 'SIGINT']) {
	process.on(signal, () => {
		stopping = true;
		wake();
	});
}

// Ends early when a signal comes.
function pause(ms) {
	return new Promise((resolve) => {
		const timer = setTimeout(resolve, ms);
		wake = () => {
			clearTimeout(timer);
			resolve();
		};
		if (stopping) wake();
	});
}

async function value(client, sql, parameters) {
	const { rows } = await client.query({ text: sql, values: parameters, rowMode: 'array' });
	return rows[0][0];
}

// The work: everything it writes is in the caller's transaction.
async function ship(client, message) {
	if (message.payload?.order === undefined) throw new Poison('the payload names no order');
	await client.query('INSERT INTO shipment (order_id, traceparent) VALUES ($1, $2)', [
		message.payload.order,
		message.headers?.traceparent ?? null,
	]);
}

// One message: done and acknowledged in one transaction, or given back.
async function handle(client, message) {
	const lease = [message.id, message.receipt_handle];
	try {
		await client.query('BEGIN');
		if (await value(client, "SELECT queue_state.process_once('shipping', $1)", [message.id]))
			await ship(client, message);
		const held = await value(client, 'SELECT queue_state.acknowledge($1, $2)', lease);
		// Not held: the lease ended during the work, it is somebody else's now.
		await client.query(held ? 'COMMIT' : 'ROLLBACK');
		console.log(held ? 'shipped' : 'late', message.id, JSON.stringify(message.headers));
	} catch (error) {
		// Without a connection this fails as well, and the lease elapses by itself.
		await client.query('ROLLBACK');
		const poison = error instanceof Poison;
		await client.query(
			poison
				? 'SELECT queue_state.reject($1, $2, $3)'
				: 'SELECT queue_state.nack($1, $2, error => $3)',
			[...lease, error.message],
		);
		console.log(poison ? 'rejected' : 'given back', message.id);
	}
}

async function work(client, queue) {
	while (!stopping) {
		const { rows: messages } = await client.query(
			'SELECT * FROM queue_state.dequeue($1, $2)', [queue, BATCH]);
		for (const message of messages) {
			if (stopping)
				// Leased and not begun: somebody else can have it at once.
				await client.query("SELECT queue_state.nack($1, $2, delay => '0 seconds')",
					[message.id, message.receipt_handle]);
			else
				await handle(client, message);
		}
		if (messages.length === 0) await pause(IDLE_MS);
	}
}

const queue = process.argv[2];
if (queue === undefined) {
	console.error('usage: worker.js QUEUE');
	process.exit(1);
}
while (!stopping) {
	const client = new pg.Client();
	// Without a listener a lost connection would end the process.
	client.on('error', () => {});
	try {
		await client.connect();
		await work(client, queue);
	} catch (error) {
		console.error('no connection:', error.message);
		await pause(RECONNECT_MS);
	} finally {
		await client.end().catch(() => {});
	}
}
console.log('stopped');
