// A tensor in another element type, of any plain formats.
//
// Grid: one work-item a line (tensor.clh) of y, n of them. table: dims and line, views of y and x. LOAD_X reads an element
// of x, of type X, as V; STORE writes what CONVERT makes of it. Float to integer is towards zero; what does not fit is the
// device's.
#include "tensor.clh"

#ifndef X
  #define X float
#endif
#ifndef LOAD_X
  #define LOAD_X(p, i) ((p)[i])
#endif
#ifndef V
  #define V float
#endif
#ifndef CONVERT
  #define CONVERT(v) (v)
#endif

__kernel void reorder_lines(const int n, TENSOR(in0), TENSOR(out0), __global const int* restrict table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  const int end = line_of(id, table, at);
  __global const int* y = table + LINE;
  __global const int* x = y + VIEW;
  for (; at[RANK - 1] < end; at[RANK - 1]++) {
    const V v = LOAD_X(BASE_OF(const X, in0), element(x, at));
    STORE(BASE_OF(T, out0), element(y, at), CONVERT(v));
  }
}
