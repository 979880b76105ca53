// y = saturate(round(x / scale) + zero), halves to even; a NaN becomes the smallest integer.
//
// Grid: one work-item an element, n of them. table: dims, views of y and x, scale and zero point (bits of floats).
// T         element type of x (default float); OUT that of y (default char), to which SATURATE turns a float
// Error: 2.5 ulp of the division before rounding, so that a value beside a half may fall on either side.
#ifndef OUT
  #define OUT char
#endif
#ifndef SATURATE
  #define SATURATE convert_char_sat
#endif
#include "tensor.clh"

__kernel void static_quantize_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* f = x + VIEW;
  const float v = LOAD(BASE_OF(const T, in0), element(x, at));
  BASE_OF(OUT, out0)[element(y, at)] = SATURATE(post_apply(POST_QUANTIZE, v, v, as_float(f[0]), as_float(f[1])));
}
