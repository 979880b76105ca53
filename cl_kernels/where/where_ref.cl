// y = condition ? a : b, element by element with broadcasting; the condition is a byte.
//
// Grid: one work-item a line (tensor.clh) of y, n of them. table: dims and line, views of y, condition, a and b. T is
// any type of the element's size.
#ifndef T
  #define T uint
#endif
#include "tensor.clh"

__kernel void where_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0),
                        __global const int* restrict table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  const int end = line_of(id, table, at);
  __global const int* y = table + LINE;
  __global const int* c = y + VIEW;
  __global const int* a = c + VIEW;
  __global const int* b = a + VIEW;
  for (; at[RANK - 1] < end; at[RANK - 1]++) {
    const T p = BASE_OF(const T, in1)[element(a, at)], q = BASE_OF(const T, in2)[element(b, at)];
    BASE_OF(T, out0)[element(y, at)] = BASE_OF(const uchar, in0)[element(c, at)] ? p : q;
  }
}
