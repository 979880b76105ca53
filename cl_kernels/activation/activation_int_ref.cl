// y = f(x), element by element, on integers and bools.
//
// Grid: one work-item an element, n of them. table: dims, view of y, view of x, code, then the bounds of a clip, each
// as low and high 32 bits. Codes are those of post_codes.clh and 133 for `not`. Exact.
#ifndef T
  #define T int
#endif
#include "tensor.clh"

__kernel void activation_int_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* f = x + VIEW;
  const long low = ((long)f[2] << 32) | (uint)f[1], high = ((long)f[4] << 32) | (uint)f[3];
  const long v = (long)BASE_OF(const T, in0)[element(x, at)];
  long r = v;
  switch (f[0]) {
    case POST_RELU: r = max(v, 0L); break;
    case POST_CLIP: r = min(max(v, low), high); break;
    case POST_NEG: r = -v; break;
    case POST_ABS: r = v < 0 ? -v : v; break;
    case POST_SQUARE: r = v * v; break;
    case POST_SIGN: r = (v > 0) - (v < 0); break;
    case 133: r = v == 0; break;
  }
  BASE_OF(T, out0)[element(y, at)] = (T)r;
}
