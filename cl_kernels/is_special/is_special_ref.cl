// y = whether the bits of x under a mask equal a value, or are above it: a test for infinity, or for NaN.
//
// Grid: one work-item a line (tensor.clh) of y, n of them. table: dims and line, views of y and x, whether above, then mask and
// value, each the bytes of a T in two words. T is an unsigned type of the element's size. Exact.
#ifndef T
  #define T uint
#endif
#include "tensor.clh"

__kernel void is_special_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* restrict table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  const int end = line_of(id, table, at);
  __global const int* y = table + LINE;
  __global const int* x = y + VIEW;
  __global const int* f = x + VIEW;
  const T mask = (T)((ulong)(uint)f[2] << 32 | (uint)f[1]), value = (T)((ulong)(uint)f[4] << 32 | (uint)f[3]);
  for (; at[RANK - 1] < end; at[RANK - 1]++) {
    const T bits = BASE_OF(const T, in0)[element(x, at)] & mask;
    BASE_OF(uchar, out0)[element(y, at)] = f[0] ? bits > value : bits == value;
  }
}
