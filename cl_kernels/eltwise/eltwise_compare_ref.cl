// y = a OP b, element by element with broadcasting; y is 0 or 1 in a byte.
//
// Grid: one work-item a line (tensor.clh) of y, n of them. table: dims and line, views of y, a and b, code: 0 equal, 1
// less, 2 less or equal, 3 greater, 4 greater or equal. T is the type in memory, V the one compared in (default float).
// Exact.
#include "tensor.clh"

#ifndef V
  #define V REAL
#endif

__kernel void eltwise_compare_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0),
                                  __global const int* restrict table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  const int end = line_of(id, table, at);
  __global const int* y = table + LINE;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  // A loop each, so that the choice is not made at every element.
#define EACH(OP) \
  for (; at[RANK - 1] < end; at[RANK - 1]++) { \
    const V p = LOAD(BASE_OF(const T, in0), element(a, at)), q = LOAD(BASE_OF(const T, in1), element(b, at)); \
    BASE_OF(uchar, out0)[element(y, at)] = p OP q; \
  } \
  break;
  switch (b[VIEW]) {
    case 0: EACH(==)
    case 1: EACH(<)
    case 2: EACH(<=)
    case 3: EACH(>)
    default: EACH(>=)
  }
}
