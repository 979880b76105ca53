// y = a OP b, element by element with broadcasting; y is 0 or 1 in a byte.
//
// Grid: one work-item an element of y, n of them. table: dims, views of y, a and b, code: 0 equal, 1 less, 2 less or
// equal, 3 greater, 4 greater or equal. T is the type in memory, V the one compared in (default float). Exact.
#include "tensor.clh"

#ifndef V
  #define V REAL
#endif

__kernel void eltwise_compare_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  const V p = LOAD(BASE_OF(const T, in0), element(a, at)), q = LOAD(BASE_OF(const T, in1), element(b, at));
  const int code = b[VIEW];
  const int r = code == 0 ? p == q : code == 1 ? p < q : code == 2 ? p <= q : code == 3 ? p > q : p >= q;
  BASE_OF(uchar, out0)[element(y, at)] = (uchar)r;
}
