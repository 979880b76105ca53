// y[places] = f(y[places], updates), one update after another in the order of the indices, into a y that is a copy of x.
//
// Grid: one work-item for what is updated side by side (n of them: a line along the axis of ScatterElements, an element of
// the slices of ScatterND), which takes the updates of its line in order. table: dims of the work-items, views of y, the
// updates and the indices, updates of a line (their own dims: count, then sizes from the slowest), pitches of updates and
// indices along these, coordinates of a place, pitch from one to the next, then size and pitch of each axis of y that they
// are for, last the code of f: 0 the update, 1 sum, 2 product, 3 greatest, 4 least.
// A negative coordinate counts from the back; an update outside of y is left out.
// T, LOAD, STORE as in tensor.clh; V the type that is computed in (default float); INDEX the indices' type.
// Error: one rounding an update.
#include "tensor.clh"

#ifndef V
  #define V REAL
#endif
#ifndef INDEX
  #define INDEX long
#endif

static V joined(const int code, const V old, const V new) {
  switch (code) {
    case 1: return old + new;
    case 2: return old * new;
    case 3: return old >= new || old != old ? old : new;
    case 4: return old <= new || old != old ? old : new;
  }
  return new;
}

__kernel void scatter_ref(const int n, TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* updates = y + VIEW;
  __global const int* indices = updates + VIEW;
  __global const int* line = indices + VIEW;
  const int axes = line[0];
  __global const int* sizes = line + 1;
  __global const int* update_pitches = sizes + axes;
  __global const int* index_pitches = update_pitches + axes;
  __global const int* rest = index_pitches + axes;
  const int depth = rest[0], code = rest[2 + 2 * depth];
  __global T* target = BASE_OF(T, out0) + element(y, at);
  int count = 1;
  for (int a = 0; a < axes; a++) count *= sizes[a];
  for (int i = 0; i < count; i++) {
    int left = i, from = element(updates, at), with = element(indices, at);
    for (int a = axes - 1; a >= 0; a--) {
      const int k = left % sizes[a];
      left /= sizes[a];
      from += k * update_pitches[a];
      with += k * index_pitches[a];
    }
    int to = 0, inside = 1;
    for (int d = 0; d < depth; d++) {
      const long size = rest[2 + 2 * d], wanted = BASE_OF(const INDEX, in1)[with + d * rest[1]];
      const long place = wanted < 0 ? wanted + size : wanted;
      inside &= place >= 0 && place < size;
      to += inside ? (int)place * rest[3 + 2 * d] : 0;
    }
    if (inside) STORE(target, to, joined(code, LOAD(target, to), LOAD(BASE_OF(const T, in2), from)));
  }
}
