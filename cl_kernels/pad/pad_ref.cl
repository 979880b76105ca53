// Elements around a tensor: a value, the border, its mirror image, or the other side.
//
// Grid: one work-item an element of y, n of them. table: dims of y, view of y, view of x (of coordinate 0), dims of x,
// elements added before each axis, mode (0 constant, 1 edge, 2 reflect, 3 wrap), 16 bytes of the value.
// MOVED is any unsigned type of the element's size; neighbours that are moved together are one element of up to 16 bytes, which
// FILLING makes of the values at p.
#ifndef MOVED
  #define MOVED uint
#endif
#ifndef FILLING
  #define FILLING(p) ((MOVED)(((ulong)(uint)(p)[1] << 32) | (uint)(p)[0]))
#endif
#include "tensor.clh"

static int pad_source(int i, const int size, const int mode) {
  if (mode == 1) return clamp(i, 0, size - 1);
  if (mode == 2 && size > 1) {
    const int period = 2 * (size - 1);
    i = (i % period + period) % period;
    return i < size ? i : period - i;
  }
  return mode == 3 ? (i % size + size) % size : clamp(i, 0, size - 1);
}

__kernel void pad_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK], from[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* sizes = x + VIEW;
  __global const int* before = sizes + RANK;
  __global const int* rest = before + RANK;
  int inside = 1;
  for (int axis = 0; axis < RANK; axis++) {
    const int i = at[axis] - before[axis];
    inside &= i >= 0 && i < sizes[axis];
    from[axis] = pad_source(i, sizes[axis], rest[0]);
  }
  MOVED v = FILLING(rest + 1);
  if (inside || rest[0]) v = BASE_OF(const MOVED, in0)[element(x, from)];
  BASE_OF(MOVED, out0)[element(y, at)] = v;
}
