// graphile-worker: runs JOBS no-op jobs. Prints {"jobs", "seconds"}.
//
// With the settings of its performance page (https://worker.graphile.org/docs/performance): a local queue, and
// completions in batches.
import pg from 'pg'
import { Logger, makeWorkerUtils, run } from 'graphile-worker'

const [url, count] = process.argv.slice(2)
const jobs = Number(count)
const quiet = new Logger(() => () => {})

const pool = new pg.Pool({ connectionString: url, max: 25 })
const utils = await makeWorkerUtils({ pgPool: pool, logger: quiet })
await utils.migrate()
for (let left = jobs; left > 0; left -= 5000) {
  await utils.addJobs(Array.from({ length: Math.min(left, 5000) }, (_, id) => ({ identifier: 'noop', payload: { id } })))
}
await pool.query('vacuum analyze')
await pool.query('checkpoint')

// A job counts when its completion is written: the last batch of them is on its way when the last task has run.
let ran = 0
let allRan
const finished = new Promise((resolve) => { allRan = resolve })
const began = process.hrtime.bigint()
const runner = await run({
  pgPool: pool,
  taskList: { noop: async () => { if (++ran === jobs) allRan() } },
  preset: {
    worker: {
      concurrentJobs: 24,
      maxPoolSize: 25,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      logger: quiet
    }
  },
  noHandleSignals: true
})
await finished
for (;;) {
  const { rows } = await pool.query('select exists (select from graphile_worker.jobs) as left_over')
  if (!rows[0].left_over) break
  await new Promise((resolve) => setTimeout(resolve, 5))
}
const seconds = Number(process.hrtime.bigint() - began) / 1e9
await runner.stop()
await utils.release()
await pool.end()
console.log(JSON.stringify({ jobs: ran, seconds }))
