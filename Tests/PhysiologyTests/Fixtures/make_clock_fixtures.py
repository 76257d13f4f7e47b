"""Lines below late stamps, by linear programming: what ClockFitTests compares with.

Needs numpy and scipy (made with 2.4 and 1.17). Prints Swift: seed, offset and period in nanoseconds.

    minimise sum(stamp - (offset + period * tick)), where no stamp lies below the line

Moon, Skelly and Towsley, INFOCOM 1999. Stamps come from whole numbers alone, so that Swift makes the same: a tick of
40.0012 ms waits for the next connection event, 48.75 ms apart, and one in four for up to five events more.
"""
import numpy
from scipy.optimize import linprog

TICK, EVENT, COUNT = 40_001_200, 48_750_000, 400


def stamps(seed):
    state, last, result = seed, 0, []
    for tick in range(COUNT):
        state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
        events = -(-(tick * TICK) // EVENT)
        if (state >> 60) < 4:
            events += 1 + (state >> 40) % 5
        last = max(last, events * EVENT + (state >> 20) % 300_000)
        result.append(last)
    return numpy.array(result, dtype=float)


for seed in (1, 2, 3):
    t = stamps(seed)
    i = numpy.arange(COUNT, dtype=float)
    scale = 1e6
    answer = linprog(
        [-COUNT, -i.sum()], A_ub=numpy.column_stack([numpy.ones(COUNT), i]), b_ub=t / scale,
        bounds=[(None, None), (None, None)], method="highs")
    offset, period = answer.x * scale
    print(f"({seed}, {offset:.1f}, {period:.3f}),")
