// y = (x - zero) * scale; the difference is exact.
//
// Grid: one work-item an element, n of them. table: dims, views of y, x and of scale and zero point, which have the same.
// T    element type of y and scale (default float); Q that of x and the zero point (default uchar)
// Error: half an ulp, of differences beyond 2^24 (of 32-bit x) one more.
#ifndef Q
  #define Q uchar
#endif
#include "tensor.clh"

__kernel void dequantize_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table,
                             POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* s = x + VIEW;
  const float scale = LOAD(BASE_OF(const T, in1), element(s, at));
  const long zero = in2_offset < 0 ? 0 : (long)BASE_OF(const Q, in2)[element(s, at)];
  const float v = (float)((long)BASE_OF(const Q, in0)[element(x, at)] - zero) * scale;
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(v, at));
}
