// Numbers at random (random_ref.cl) side by side, those of sixteen counters at a time.
//
// Grid: a work-item for each COUNTERS counters, n of them. in0: the key, two words. count: numbers. y is dense.
// Error: as of random_ref.
#ifndef NORMAL
  #define NORMAL 0
#endif
#include "tensor.clh"
#include "philox.clh"

#pragma OPENCL FP_CONTRACT OFF

#define COUNTERS 256
// Lanes i to i + 3 of four vectors, those of a lane side by side.
#define FOUR(i, j, k, l) \
  (float16)(a.s##i, b.s##i, c.s##i, d.s##i, a.s##j, b.s##j, c.s##j, d.s##j, a.s##k, b.s##k, c.s##k, d.s##k, a.s##l, b.s##l, \
            c.s##l, d.s##l)

static float16 unit_of(const uint16 word) { return convert_float16(as_int16(word >> 8)) * 0x1p-24f; }

__kernel void random_rows(const int n, TENSOR(in0), const int stream, TENSOR(out0), const int count, const float first,
                          const float second) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const uint2 key = vload2(0, BASE_OF(const uint, in0));
  __global float* y = BASE_OF(float, out0);
  const uint16 lanes = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int at = id * COUNTERS; at < (id + 1) * COUNTERS && 4l * at < count; at += 16) {
    uint16 p, q, r, s;
    PHILOX(uint16, p, q, r, s, (uint16)((uint)at) + lanes, (uint)stream, key)
    float16 a = unit_of(p), b = unit_of(q), c = unit_of(r), d = unit_of(s);
#if NORMAL
    const float16 near = sqrt(-2.0f * log(1.0f - a)), far = sqrt(-2.0f * log(1.0f - c));  // 1 - u is exact, and above 0
    const float16 turn = 2.0f * b, other = 2.0f * d;
    a = first + second * (near * cospi(turn)), b = first + second * (near * sinpi(turn));
    c = first + second * (far * cospi(other)), d = first + second * (far * sinpi(other));
#else
    a = first + a * (second - first), b = first + b * (second - first);
    c = first + c * (second - first), d = first + d * (second - first);
#endif
    const float16 rows[4] = {FOUR(0, 1, 2, 3), FOUR(4, 5, 6, 7), FOUR(8, 9, a, b), FOUR(c, d, e, f)};
    for (int i = 0; i < 4; i++) {
      const long to = 4l * at + 16 * i;
      if (to + 16 <= count)
        vstore16(rows[i], 0, y + to);
      else
        for (int j = 0; to + j < count; j++) y[to + j] = rows[i][j];
    }
  }
}
