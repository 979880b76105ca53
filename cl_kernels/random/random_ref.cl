// y[view] = floats at random, number i of row-major order from word i % 4 of counter (i / 4, 0, stream, 0): the upper 24
// bits as u in [0, 1), then first + u * (second - first); with NORMAL pairs of normal numbers by Box and Muller, of mean
// first and deviation second.
//
// The generator is Philox4x32-10: Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3. SC 2011.
//
// Grid: one work-item a counter, n of them. in0: the key, two words. table: dims, view of y. count: numbers.
//
// Uniform numbers are rounded twice, as NumPy's are: no product and sum become one operation. The logarithm is within 3
// ulps, its root within 4, cosine and sine of u in half turns within 4 ulps of a float (OpenCL 1.2, 7.4).
#ifndef NORMAL
  #define NORMAL 0
#endif
#include "tensor.clh"
#include "philox.clh"

#pragma OPENCL FP_CONTRACT OFF

__kernel void random_ref(const int n, TENSOR(in0), const int stream, TENSOR(out0),
                         __global const int* table, const int count, const float first, const float second) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const uint2 key = vload2(0, BASE_OF(const uint, in0));
  uint4 words;
  PHILOX(uint, words.x, words.y, words.z, words.w, (uint)id, (uint)stream, key)
  const float4 u = convert_float4(words >> 8) * 0x1p-24f;
#if NORMAL
  const float2 radius = sqrt(-2.0f * log(1.0f - u.even));  // 1 - u is exact, and above 0
  const float2 angle = 2.0f * u.odd;
  const float2 c = radius * cospi(angle), s = radius * sinpi(angle);
  const float4 y = first + second * (float4)(c.x, s.x, c.y, s.y);
#else
  const float4 y = first + u * (second - first);
#endif
  float numbers[4];
  vstore4(y, 0, numbers);
  __global float* out = BASE_OF(float, out0);
  for (int i = 0; i < min(4, count - 4 * id); i++) {
    int at[RANK];
    coordinates(4 * id + i, table, 0, RANK, at);
    out[element(table + RANK, at)] = numbers[i];
  }
}
