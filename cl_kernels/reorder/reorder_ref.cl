// The same tensor in another memory format and element type; halo and tail lanes of y are written as zeros.
//
// Grid: one work-item an element of y's memory, n of them. RANK axes in the order of y's memory; without blocks and
// halos, those that lie behind one another in both are one. table: extents of y (halo and tail lanes included), then for
// each axis: size of the tensor; of y: halo before, block, pitch of blocks, pitch inside a block; of x the same. LOAD_X
// reads an element of x as V, STORE writes what CONVERT makes of it as an element of y.
// Float to integer is towards zero; what does not fit is the device's.
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

static int reorder_offset(__global const int* axis, const int i) {
  const int at = i + axis[0];
  return at / axis[1] * axis[2] + at % axis[1] * axis[3];
}

__kernel void reorder_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  int from = 0, to = 0, inside = 1;
  for (int a = 0; a < RANK; a++) {
    __global const int* axis = table + RANK + 9 * a;
    const int i = at[a] - axis[1];
    inside &= i >= 0 && i < axis[0];
    to += reorder_offset(axis + 1, i);
    from += reorder_offset(axis + 5, inside ? i : 0);
  }
  V v = 0;
  if (inside) v = LOAD_X(BASE_OF(const X, in0), from);
  STORE(BASE_OF(T, out0), to, CONVERT(v));
}
