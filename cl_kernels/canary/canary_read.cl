// Measures reading, from memory and from a cache that cores share: each work-item adds up `count` vectors (a multiple of 4),
// every `step`-th from vector id * first on.
//
// y: a vector of sums for each work-item; exact where they are integers below 2^24. Any grid.
#include "lanes.clh"

__kernel void canary_read(__global const float* x, __global float* y, const int first, const int step,
                          const int count) {
  const int start = get_global_id(0) * first;
  V a = (V)(0.0f), b = a, c = a, d = a;
  for (int k = 0; k + 3 < count; k += 4) {
    a += LOAD(start + (k + 0) * step, x);
    b += LOAD(start + (k + 1) * step, x);
    c += LOAD(start + (k + 2) * step, x);
    d += LOAD(start + (k + 3) * step, x);
  }
  STORE((a + b) + (c + d), get_global_id(0), y);
}
