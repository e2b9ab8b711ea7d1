"""Jobs: done in turn, told of, cancelled, bounded."""

import threading
import time

import pytest

from ardm.apps.serve.jobs import BusyError, Job, Worker
from ardm.apps.serve.limits import PageLimits
from ardm.errors import DataError

LIMITS = PageLimits()


class Told:
    """Keeps the events of a job."""

    def __init__(self) -> None:
        self.events: list[dict | None] = []
        self.done = threading.Event()

    def __call__(self, event: dict | None) -> None:
        self.events.append(event)
        if event is None:
            self.done.set()

    @property
    def last(self) -> dict:
        assert self.done.wait(10)
        return self.events[-2]


@pytest.fixture
def worker():
    worker = Worker(2)
    yield worker
    worker.close()


class TestJobs:
    def test_jobs_run_one_at_a_time_and_in_turn(self, worker):
        running, most, sequence, told = [0], [0], [], [Told() for _ in range(3)]

        def work(number):
            def run(job):
                running[0] += 1
                most[0] = max(most[0], running[0])
                time.sleep(0.02)
                sequence.append(number)
                running[0] -= 1
                return {"number": number}

            return run

        for number, one in enumerate(told):
            worker.submit(Job(work(number), one, 10.0))
            time.sleep(0.005)
        assert [one.last["number"] for one in told] == [0, 1, 2]
        assert (sequence, most) == ([0, 1, 2], [1])
        assert {"kind": "waiting", "ahead": 2} in told[2].events
        assert {"kind": "waiting", "ahead": 1} in told[2].events

    def test_a_full_queue_refuses(self, worker):
        go, told = threading.Event(), [Told() for _ in range(4)]
        jobs = [Job(lambda job: {"went": go.wait(10)}, one, 10.0) for one in told]
        worker.submit(jobs[0])
        while not any(event["kind"] == "start" for event in told[0].events if event):
            time.sleep(0.001)
        worker.submit(jobs[1])
        worker.submit(jobs[2])
        with pytest.raises(BusyError, match="2 jobs are already waiting"):
            worker.submit(jobs[3])
        worker.drop(jobs[1])  # its place is free again
        worker.submit(jobs[3])
        go.set()
        assert told[3].last["went"]
        assert told[1].events[-1]["kind"] == "waiting"

    def test_a_running_job_stops_at_its_next_call(self, worker):
        told, calls = Told(), []

        def work(job):
            while True:
                calls.append(1)
                job.advance(1)
                time.sleep(0.001)

        job = Job(work, told, 10.0)
        worker.submit(job)
        while len(calls) < 3:
            time.sleep(0.001)
        worker.drop(job)
        assert told.last == {"kind": "cancelled"}
        count = len(calls)
        time.sleep(0.02)
        assert len(calls) == count

    def test_a_job_has_a_deadline(self, worker):
        told = Told()

        def work(job):
            while True:
                job.advance(1)

        worker.submit(Job(work, told, 0.05))
        assert told.last["message"].startswith("stopped after 0.05 seconds")

    @pytest.mark.parametrize(
        ("raised", "message"),
        [
            (DataError("one\nline"), "one line"),
            (MemoryError(), "there is not enough memory for this"),
            (KeyError("/secret/path"), "unexpected KeyError; see the server's terminal"),
        ],
    )
    def test_errors_are_one_line_and_do_not_stop_the_thread(self, worker, raised, message, caplog):
        told, after = Told(), Told()

        def work(job):
            raise raised

        worker.submit(Job(work, told, 10.0))
        worker.submit(Job(lambda job: {}, after, 10.0))
        assert told.last["message"].startswith(message)
        assert after.last == {"kind": "result"}
        assert ("a job failed" in caplog.text) == isinstance(raised, KeyError)

    def test_closing_cancels_everything(self):
        worker, told = Worker(2), Told()

        def work(job):
            while True:
                job.advance(1)

        worker.submit(Job(work, told, 10.0))
        worker.close()
        assert told.last == {"kind": "cancelled"}
        with pytest.raises(BusyError, match="shutting down"):
            worker.submit(Job(work, told, 10.0))
