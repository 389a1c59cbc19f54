"""Inference servers: prompts and tokens, tensor parallel, split by layers, partly in host memory, with lulls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.engine import Program, all_of
from gpumon.hardware.simulated.job import Group, Job
from gpumon.hardware.simulated.physics import Work
from gpumon.hardware.simulated.timeline import Label
from gpumon.hardware.simulated.work import Model

# Passes shorter than this are run together as one stretch: they take turns faster than any sensor sees.
_STRETCH_S = 40e-3
# Launching a token's kernels and picking the next token; CUDA graphs hide most of the launches.
_TOKEN_HOST_S = 0.4e-3


@dataclass(frozen=True, slots=True)
class Serving:
    """A server and its traffic."""

    model: Model
    split: str  # tp, layers, single
    batch: int = 16  # requests answered at once; as one ends, the next is taken in
    prompt_tokens: int = 1024
    output_tokens: int = 256
    prompt_chunk: int = 4096  # tokens in one forward pass of prompts
    weight_bytes: float = 0.0  # 0: 2 bytes a parameter; quantized weights are smaller
    context_tokens: int = 1500  # mean length of what attention reads while generating
    busy_seconds: float = float("inf")  # traffic comes for about this long, then
    lull_seconds: float = 0.0  # none for about this long
    host_share: float = 0.0  # share of the weights that stays in host memory (experts computed by the CPU)
    prompts_only: bool = False  # embedding, scoring, or a prompt-heavy mix
    transport: str = ""
    length_spread: float = 0.5  # of prompts and answers, standard deviation of the logarithm
    jitter: float = 0.02

    @property
    def weights(self) -> float:
        """Bytes of all weights."""
        return self.weight_bytes or self.model.weight_bytes()


@dataclass(frozen=True, slots=True)
class _Turn:
    """One request taken in and as many tokens made as the batch makes until the next one ends."""

    begin_s: float  # not before this time: a lull
    prompt_tokens: int
    steps: int  # passes over the weights, each a token for every request of the batch


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some passes of the model."""

    kernels: Work
    seconds: float
    tokens: int  # finished with it


class Server:
    """A server's cards at work. Every rank runs `serve`; with a split by layers rank 0 drives all cards."""

    def __init__(self, job: Job, plan: Serving) -> None:
        self.job = job
        self.plan = plan
        self.group = Group(job, range(job.size), plan.transport)
        self.card = job.cards[0].card
        self._next_lull_s = job.engine.now + self._about(plan.busy_seconds)
        self._turns: dict[int, _Turn] = {}
        self._token = self._one_token()

    def serve(self, rank: int) -> Program:
        """Answer requests until the job ends."""
        if self.plan.split == "layers" and rank > 0:
            return
        number = 0
        batch: list[_Piece] = []
        while self.job.goes_on(number):
            turn = self._turn(number)
            if turn.begin_s > self.job.engine.now:
                yield from self._run(rank, batch)
                yield from self.job.idle(rank, Label.IDLE, max(turn.begin_s - self.job.engine.now, 0.0), -0.9)
            if self.plan.split == "layers":
                yield from self._layers(turn)
            elif self.plan.host_share > 0:
                yield from self._from_host_memory(rank, turn)
            else:
                for piece in self._pieces(turn):
                    batch.append(piece)
                    if sum(each.seconds for each in batch) >= _STRETCH_S:
                        yield from self._run(rank, batch)
            number += 1

    def _run(self, rank: int, batch: list[_Piece]) -> Program:
        """Run what has come together as one stretch, and empty the list."""
        if not batch:
            return
        kernels = work.blend([(piece.kernels, piece.seconds) for piece in batch])
        seconds = sum(piece.seconds for piece in batch)
        tokens = sum(piece.tokens for piece in batch)
        batch.clear()
        yield self.job.kernel(rank, kernels, seconds)
        if self.job.size > 1:
            yield self.group.barrier(rank)
        self._made(rank, tokens)

    def _pieces(self, turn: _Turn) -> Iterator[_Piece]:
        """Yield a turn's passes over the prompt, then its tokens, none much longer than a stretch."""
        plan, job = self.plan, self.job
        left = turn.prompt_tokens
        while left > 0:
            chunk = min(plan.prompt_chunk, left)
            left -= chunk
            seconds = work.prefill_seconds(self.card, plan.model, chunk, job.size)
            kernels = work.prefill()
            if job.size > 1:
                layers = plan.model.layers
                sent = 2 * layers * chunk * plan.model.hidden * 2 * 2 * (job.size - 1) / job.size
                kernels, seconds = self.group.interleaved([(kernels, seconds)], sent, 2 * layers)
            yield _Piece(kernels, seconds, chunk if plan.prompts_only else 0)
        if plan.prompts_only:
            return
        token, token_s = self._token
        left = turn.steps
        stretch = max(1, round(_STRETCH_S / token_s))
        while left > 0:
            count = min(stretch, left)
            left -= count
            yield _Piece(token, count * token_s, count * plan.batch)

    def _turn(self, number: int) -> _Turn:
        """Return a turn, the same for all ranks: who comes first draws it."""
        if number not in self._turns:
            plan, now = self.plan, self.job.engine.now
            begin_s = now
            if now >= self._next_lull_s:
                begin_s = now + self._about(plan.lull_seconds)
                self._next_lull_s = begin_s + self._about(plan.busy_seconds)
            steps = plan.output_tokens / plan.batch * self._spread()
            self._turns[number] = _Turn(
                begin_s, max(1, round(plan.prompt_tokens * self._spread())), max(1, round(steps))
            )
            self._turns.pop(number - 4, None)
        return self._turns[number]

    def _about(self, seconds: float) -> float:
        return seconds * self.job.rng.uniform(0.5, 1.5)

    def _spread(self) -> float:
        """Return a factor of mean 1: requests differ in length."""
        sigma = self.plan.length_spread
        return self.job.rng.lognormvariate(-sigma * sigma / 2, sigma)

    def _made(self, rank: int, tokens: float) -> None:
        if rank == 0:
            self.job.log.samples += tokens

    def _one_token(self) -> tuple[Work, float]:
        """Return what one token does to a card, as one blended work, and how long it takes."""
        plan, job = self.plan, self.job
        cache = plan.batch * plan.context_tokens * plan.model.cache_bytes_per_token()
        memory_s = work.decode_seconds(self.card, plan.weights, cache, job.size)
        parts = [(work.streaming(self.card), memory_s), (work.launch_bound(0.2), _TOKEN_HOST_S)]
        if job.size == 1:
            return work.blend(parts), sum(seconds for _, seconds in parts)
        layers = plan.model.layers
        sent = 2 * layers * plan.batch * plan.model.hidden * 2 * 2 * (job.size - 1) / job.size
        return self.group.interleaved(parts, sent, 2 * layers)

    def _layers(self, turn: _Turn) -> Program:
        """Layers spread over the cards: for each token the cards take turns, each for its share."""
        plan, job = self.plan, self.job
        tokens = turn.prompt_tokens
        seconds = work.prefill_seconds(self.card, plan.model, tokens, 1)
        for at in range(job.size):
            for card in job.cards:
                card.change(host_label=Label.BUBBLE)
            yield job.kernel(at, work.prefill(), seconds / job.size)
            if at + 1 < job.size:
                yield job.send(at, at + 1, tokens * plan.model.hidden * 2)
        cache = plan.batch * plan.context_tokens * plan.model.cache_bytes_per_token()
        memory_s = work.decode_seconds(self.card, plan.weights, cache, 1)
        hops_s = (job.size - 1) * 60e-6
        token_s = memory_s + _TOKEN_HOST_S + hops_s
        share = memory_s / job.size / token_s
        passing = work.blend([(work.streaming(self.card), share), (_standing_still(), 1.0 - share)])
        left = turn.steps
        stretch = max(1, round(_STRETCH_S / token_s))
        while left > 0:
            count = min(stretch, left)
            left -= count
            yield all_of([job.kernel(at, passing, count * token_s) for at in range(job.size)])
            self._made(0, count * plan.batch)

    def _from_host_memory(self, rank: int, turn: _Turn) -> Program:
        """Some weights live in host memory: prompts pull them over the link, tokens are computed there by the CPU."""
        plan, job = self.plan, self.job
        held = plan.weights * plan.host_share
        tokens = turn.prompt_tokens
        feeding = rank == 0
        pieces = 12
        for _ in range(pieces):
            copied = job.copy(rank, True, (held if feeding else 0.02 * held) / pieces, Label.OFFLOAD)
            yield copied
            seconds = work.prefill_seconds(self.card, plan.model, tokens, job.size)
            yield job.kernel(rank, work.prefill(0.6), seconds / pieces)
        on_card_s = work.decode_seconds(self.card, plan.weights - held, 0.0, job.size)
        # A socket's memory feeds its CPUs at about 200 GB/s; a tenth of the experts is used for one token.
        on_cpu_s = held * 0.1 / (200e9 * job.host.sockets)
        share = on_card_s / (on_card_s + on_cpu_s)
        link = 0.25e9 / job.size
        waiting = Work(
            power=0.0,
            sm=0.0,
            tensor=0.0,
            dram=0.0,
            memory_controller=0.0,
            labels={Label.OFFLOAD: 1.0},
            kernel=0.03,
            rx=link,
            tx=link * 0.4,
            clock_bound=0.0,
        )
        passing = work.blend([(work.streaming(self.card), share), (waiting, 1.0 - share)])
        for _ in range(0, turn.steps, 8):
            seconds = 8 * (on_card_s + on_cpu_s)
            job.rank_cpu[rank].add(job.engine.now, job.engine.now + seconds, 0.6 * job.host.cpus / job.size * seconds)
            yield job.kernel(rank, passing, seconds)
            self._made(rank, 8 * plan.batch)
        yield self.group.barrier(rank)


def _standing_still() -> Work:
    return Work(
        power=0.0,
        sm=0.0,
        tensor=0.0,
        dram=0.0,
        memory_controller=0.0,
        labels={Label.BUBBLE: 1.0},
        kernel=0.0,
        clock_bound=0.0,
    )
