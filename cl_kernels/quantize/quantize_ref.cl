// y = saturate(round(x / scale) + zero), halves to even; a NaN becomes the smallest integer.
//
// Grid: one work-item an element, n of them. table: dims, views of y, x and of scale and zero point, which have the same, then
// the axis along which so many neighbours share a scale, and that number (1: none do).
// T        element type of x (default float); S that of the scale (default float), read by LOAD_S; Q that of y and the
//          zero point (default uchar), read and written as floats by LOAD_Q and STORE_Q
// DIVIDED(x, s)  x / s in the precision that is asked for (default float)
// ROUNDED(r, zero)  what is stored of the quotient (default an integer from LOW to HIGH)
// LOW, HIGH  the least and greatest value of Q (default 0 and 255)
// Error: 1 ulp of the division before rounding, so that a value beside a half may fall on either side.
#ifndef Q
  #define Q uchar
#endif
#ifndef LOW
  #define LOW 0.0f
#endif
#ifndef HIGH
  #define HIGH 255.0f
#endif
#ifndef S
  #define S float
#endif
#ifndef LOAD_S
  #define LOAD_S(p, i) ((p)[i])
#endif
#ifndef LOAD_Q
  #define LOAD_Q(p, i) ((float)(p)[i])
#endif
#ifndef STORE_Q
  #define STORE_Q(p, i, v) ((p)[i] = (Q)(v))
#endif
#ifndef DIVIDED
  #define DIVIDED(x, s) ((x) / (s))
#endif
#ifndef ROUNDED
  #define ROUNDED(r, zero) (isnan(r) ? LOW : clamp(rint(r) + zero, LOW, HIGH))
#endif
#include "tensor.clh"

static float half_rounded(const float v) {
  ushort bits;
  vstore_half_rte(v, 0, (half*)&bits);
  return vload_half(0, (const half*)&bits);
}

__kernel void quantize_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* s = x + VIEW;
  const float v = LOAD(BASE_OF(const T, in0), element(x, at));
  const int to = element(y, at);
  at[s[VIEW]] /= s[VIEW + 1];
  float zero = 0.0f;
  if (in2_offset >= 0) zero = LOAD_Q(BASE_OF(const Q, in2), element(s, at));
  const float scale = LOAD_S(BASE_OF(const S, in1), element(s, at));
  const float r = DIVIDED(v, scale);
  STORE_Q(BASE_OF(Q, out0), to, ROUNDED(r, zero));
}
