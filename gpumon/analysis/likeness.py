"""After how long a signal looks like itself again: what may be its period.

The autocorrelation is the Fourier transform of the spectrum, so one FFT gives it for all lags. It is blind to where a
pause or a late step moved the beat: steps of a real job differ by a few per cent, which smears the lines of a spectrum
long before it smears the likeness of neighbours. What it says are candidates; `folding` tells which of them is true.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpumon.analysis.common_signal import Common
from gpumon.model.samples import Floats

# A slow cycle (saves, lulls) lifts all short lags alike and hides the bumps on it, so short lags are looked at twice:
# once with all that is slower than the window allows taken away, once with all that is slower than a short step.
SLOWEST_CYCLES = 2.5  # in the window
FAST_HERTZ = 0.4
FAST_S = 2.5
LONGEST_SHARE = 0.25  # of the window
MOST_SHARE = 0.28  # that is computed, so that a bump at the longest lag has a far side
LIKE = 0.1  # least likeness of a candidate, 1 is the same
BUMP = 0.2  # how far a candidate stands out from the least like lag before it
AS_LIKE = 0.85  # of the most alike: the first that is nearly that is a candidate
EARLY = 0.4  # of the most alike: so is the first bump at all
MULTIPLES = 8  # that sharpen a candidate


def lags(signal: Common) -> list[float]:
    """Return the lags after which a signal looks like itself, seconds; none of a signal that is not on a grid."""
    if not signal.even:
        return []
    value, pace_s = signal.value, signal.pace_s
    count = value.size
    seconds = count * pace_s
    most = int(MOST_SHARE * count)
    # Zeros behind the signal keep its end from being compared with its beginning; a power of two is quickest.
    length = 1 << (count + most - 1).bit_length()
    power = np.abs(np.fft.rfft(value - value.mean(), length)) ** 2
    hertz = np.arange(power.size) / (length * pace_s)
    found: list[float] = []
    for slowest_hz, longest_s in ((SLOWEST_CYCLES / seconds, LONGEST_SHARE * seconds), (FAST_HERTZ, FAST_S)):
        if longest_s > LONGEST_SHARE * seconds:
            continue
        last = min(most, int(1.1 * longest_s / pace_s) + 2)
        whole = np.fft.irfft(np.where(hertz >= slowest_hz, power, 0.0))
        like = whole[:last] / (count - np.arange(last))
        if like[0] > 0.0:
            found += [lag * pace_s for lag in _bumps(like / like[0])]
    return found


def _bumps(like: Floats) -> list[float]:
    """Return the lags that are candidates, in points: the first bump, the first of the highest, and the highest."""
    tops = ((like[1:-1] >= like[:-2]) & (like[1:-1] > like[2:])).nonzero()[0] + 1
    stands = like[tops] - np.minimum.accumulate(like)[tops]
    tops = tops[(tops > 1) & (stands >= BUMP) & (like[tops] >= LIKE)]
    if tops.size == 0:
        return []
    height = like[tops]
    highest = float(height.max())
    chosen = {
        int(tops[(height >= EARLY * highest).argmax()]),
        int(tops[(height >= AS_LIKE * highest).argmax()]),
        int(tops[height.argmax()]),
    }
    return [_sharpened(like, tops, top) for top in sorted(chosen)]


def _sharpened(like: Floats, tops: npt.NDArray[np.intp], top: int) -> float:
    """Return a lag between points: from its own bump, then from those of its multiples, each of which says more."""
    lag = _between(like, top)
    for multiple in range(2, MULTIPLES + 1):
        near = int(np.abs(tops - multiple * lag).argmin())
        if abs(tops[near] - multiple * lag) > 1.0 + 0.15 * lag or like[tops[near]] < 0.5 * like[top]:
            break
        lag = _between(like, int(tops[near])) / multiple
    return lag


def _between(like: Floats, top: int) -> float:
    """Return the place of a bump by a parabola through three points."""
    left, middle, right = (float(value) for value in like[top - 1 : top + 2])
    bend = left - 2.0 * middle + right
    return top + (0.5 * (left - right) / bend if bend < 0.0 else 0.0)
