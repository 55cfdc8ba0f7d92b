"""Numbers of f64 go to 16 bits in one rounding: by way of f32 those just beside the middle of two neighbours go to the wrong one."""
import numpy as np
import weft as wf
from check import check

rng = np.random.default_rng(1)
middles = (1 + (2 * np.arange(200) + 1) * 2.0**-11) * 2.0 ** rng.integers(-13, 14, 200)
x = np.concatenate([[65519.999, 65520, -65519.9999, 1 + 2.0**-11 + 2.0**-30, 2.0**-25, 2.0**-25 + 2.0**-60, 0, -0.0, np.inf, -np.inf, np.nan, 1e300, 1e-300],
                    middles, middles * (1 + 2.0**-40), -middles * (1 - 2.0**-40)])
t = wf.tensor(x) if wf.tensor(x).dtype == wf.float64 else wf.tensor(x, wf.float64)
with np.errstate(over="ignore"):
    check(t.cast(wf.float16), x.astype(np.float16))
middles = (1 + (2 * np.arange(100) + 1) * 2.0**-8) * 2.0 ** rng.integers(-100, 100, 100)
x = np.concatenate([middles, middles * (1 + 2.0**-40), -middles * (1 - 2.0**-40)])
fraction, exponent = np.frexp(x)
check(wf.tensor(x, wf.float64).cast(wf.bfloat16).cast(wf.float32), np.ldexp(np.rint(fraction * 256) / 256, exponent))  # to even
