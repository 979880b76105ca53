// y = f(x), element by element, on integers and bools.
//
// Grid: one work-item a line (tensor.clh), n of them. table: dims and line, view of y, view of x, code, then the bounds
// of a clip, each the bytes of a T in two words. Codes are those of post_codes.clh and 133 for `not`. Exact, modulo
// 2^(bits of T).
#ifndef T
  #define T int
#endif
#include "tensor.clh"

__kernel void activation_int_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* restrict table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  const int end = line_of(id, table, at);
  __global const int* y = table + LINE;
  __global const int* x = y + VIEW;
  __global const int* f = x + VIEW;
  const T low = (T)((ulong)(uint)f[2] << 32 | (uint)f[1]), high = (T)((ulong)(uint)f[4] << 32 | (uint)f[3]);
  for (; at[RANK - 1] < end; at[RANK - 1]++) {
    const T v = BASE_OF(const T, in0)[element(x, at)];
    // Of unsigned long, so that what overflows wraps around.
    const ulong bits = (ulong)v;
    T r = v;
    switch (f[0]) {
      case POST_RELU: r = v < 0 ? 0 : v; break;
      case POST_CLIP: r = v < low ? low : v; r = r > high ? high : r; break;
      case POST_NEG: r = (T)-bits; break;
      case POST_ABS: r = v < 0 ? (T)-bits : v; break;
      case POST_SQUARE: r = (T)(bits * bits); break;
      case POST_SIGN: r = (v > 0) - (v < 0); break;
      case 133: r = v == 0; break;
    }
    BASE_OF(T, out0)[element(y, at)] = r;
  }
}
