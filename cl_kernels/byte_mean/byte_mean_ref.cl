// y = factor * (sum of x over its middle axis - zeros), x [outer][count][inner] bytes, y [outer][inner] float, both dense.
//
// Grid: one work-item a result, n of them. T: of x. table: count, inner, zeros: count times the zero point.
// Error: sums are exact, then two roundings.
#ifndef T
  #define T uchar
#endif
#include "tensor.clh"

__kernel void byte_mean_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table, const float factor) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int count = table[0], inner = table[1], outer = id / inner;
  __global const T* x = BASE_OF(const T, in0) + (long)outer * count * inner + id - outer * inner;
  int sum = 0;
  for (int i = 0; i < count; i++) sum += x[(long)i * inner];
  BASE_OF(float, out0)[id] = (float)(sum - table[2]) * factor;
}
