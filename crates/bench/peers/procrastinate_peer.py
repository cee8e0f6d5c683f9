"""procrastinate: runs JOBS no-op jobs. Prints {"jobs", "seconds"}.

Concurrent jobs as its documentation advises for throughput, and no completed rows kept.
"""

import asyncio
import json
import sys
import time

import procrastinate

url, jobs, concurrency = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=20))


@app.task(name="noop")
async def noop(number: int) -> None:
    pass


async def main() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, jobs, 1000):
            numbers = range(start, min(start + 1000, jobs))
            await noop.batch_defer_async(*[{"number": number} for number in numbers])
        await app.connector.execute_query_async("analyze")
        began = time.monotonic()
        await app.run_worker_async(
            concurrency=concurrency,
            wait=False,
            listen_notify=False,
            delete_jobs="always",
            install_signal_handlers=False,
        )
        seconds = time.monotonic() - began
        left = await app.connector.execute_query_one_async("select count(*) as left_over from procrastinate_jobs")
    print(json.dumps({"jobs": jobs - left["left_over"], "seconds": seconds}))


asyncio.run(main())
