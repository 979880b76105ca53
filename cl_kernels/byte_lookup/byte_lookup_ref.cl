// y = entries[x], bytes.
//
// Grid: one work-item an element, n of them. in0: x; in1: entries, 256 bytes; table: dims, views of y and x. Exact.
#include "tensor.clh"

__kernel void byte_lookup_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  const uchar x = BASE_OF(const uchar, in0)[element(y + VIEW, at)];
  BASE_OF(uchar, out0)[element(y, at)] = BASE_OF(const uchar, in1)[x];
}
