// pg-boss: fetches and completes JOBS no-op jobs. Prints {"jobs", "seconds"}.
//
// In batches, as its documentation advises for throughput: `fetch` with a batchSize, one `complete` per batch.
// That is what `work` does too, less its pause between two batches; loops of our own spare it that.
import { PgBoss } from 'pg-boss'

const [url, jobs, batchSize, loops] = process.argv.slice(2).map((value, index) => (index === 0 ? value : Number(value)))
const queue = 'noop'

const boss = new PgBoss({ connectionString: url, max: loops, supervise: false, schedule: false })
boss.on('error', (error) => { console.error(error); process.exit(1) })
await boss.start()
await boss.createQueue(queue)
for (let left = jobs; left > 0; left -= 5000) {
  await boss.insert(queue, Array.from({ length: Math.min(left, 5000) }, (_, id) => ({ data: { id } })))
}
await boss.getDb().executeSql('vacuum analyze')
await boss.getDb().executeSql('checkpoint')

let done = 0
const began = process.hrtime.bigint()
await Promise.all(Array.from({ length: loops }, async () => {
  for (;;) {
    const batch = await boss.fetch(queue, { batchSize })
    if (batch.length === 0) return
    await boss.complete(queue, batch.map((job) => job.id))
    done += batch.length
  }
}))
const seconds = Number(process.hrtime.bigint() - began) / 1e9
await boss.stop({ graceful: false })
console.log(JSON.stringify({ jobs: done, seconds }))
