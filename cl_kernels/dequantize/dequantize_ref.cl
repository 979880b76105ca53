// y = (x - zero) * scale; the difference is exact.
//
// Grid: one work-item an element, n of them. table: dims, views of y, x and of scale and zero point, which have the same, then
// the axis along which so many neighbours share a scale, and that number (1: none do).
// T    element type of y (default float); S that of the scale (default float), read by LOAD_S; Q that of x and the zero
//      point (default uchar), read by LOAD_Q; EXACT what their difference is exact in (default long)
// Error: half an ulp, of differences beyond 2^24 (of 32-bit x) one more.
#ifndef Q
  #define Q uchar
#endif
#ifndef S
  #define S float
#endif
#ifndef LOAD_S
  #define LOAD_S(p, i) ((p)[i])
#endif
#ifndef LOAD_Q
  #define LOAD_Q(p, i) ((p)[i])
#endif
#ifndef EXACT
  #define EXACT long
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
  int from[RANK];
  for (int axis = 0; axis < RANK; axis++) from[axis] = axis == s[VIEW] ? at[axis] / s[VIEW + 1] : at[axis];
  const float scale = LOAD_S(BASE_OF(const S, in1), element(s, from));
  EXACT zero = 0;
  if (in2_offset >= 0) zero = LOAD_Q(BASE_OF(const Q, in2), element(s, from));
  const EXACT x_value = LOAD_Q(BASE_OF(const Q, in0), element(x, at));
  const float v = (float)(x_value - zero) * scale;
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(v, at));
}
