"""The colour of each job class and each share of time: the same on page, report, dashboards and in `top`.

After Okabe and Ito's palette (Color Universal Design, 2008), whose members stay apart under the common kinds of
colour blindness. Red and orange are for waiting, green and blue for work. No meaning rests on colour alone: a word
stands beside it everywhere.
"""

from __future__ import annotations

CLASS_COLOURS: dict[str, str] = {
    "compute": "#009E73",
    "communication": "#D55E00",
    "memory": "#0072B2",
    "host": "#E69F00",
    "throttled": "#CC79A7",
    "idle": "#666666",
    "hung": "#7A1F5C",
    "unknown": "#C4C4C4",
}

STATE_COLOURS: dict[str, str] = {
    "compute": "#009E73",
    "overlap": "#56B4E9",
    "memory": "#0072B2",
    "communication": "#D55E00",
    "peer_wait": "#F0B48C",
    "host_wait": "#E69F00",
    "idle": "#666666",
}
