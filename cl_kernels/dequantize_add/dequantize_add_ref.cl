// y = v + (q - zero) * scale, then the post-operations.
//
// Grid: one work-item an element, n of them. table: dims, views of y, v and q, scale and zero point (bits of floats).
// T    element type of y and v (default float); Q that of q (default char)
// Error: 2^-24 |y|, then of each post-operation.
#ifndef Q
  #define Q char
#endif
#include "tensor.clh"

__kernel void dequantize_add_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table,
                                 POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* v = y + VIEW;
  __global const int* q = v + VIEW;
  __global const int* f = q + VIEW;
  const float sum = post_apply(POST_ADD_SCALED, LOAD(BASE_OF(const T, in0), element(v, at)),
                               (float)BASE_OF(const Q, in1)[element(q, at)], as_float(f[0]), as_float(f[1]));
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
}
