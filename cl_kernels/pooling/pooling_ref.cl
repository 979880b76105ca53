// Maximum or average over sliding windows, with post-operations, on tensors of floats.
//
// x [N, C, spatial], y [N, C, spatial]; RANK = 2 + spatial axes. Grid: one work-item an element of y, n of them.
// table: dims of y, views of y and x, taps, whether it is an average, whether pads count, then for each spatial axis:
// size of x, of the kernel, stride, dilation, padding before and after. A maximum never reads padding; NaN wins.
// Error: exact for a maximum; k * 2^-24 * mean |x| for an average of k.
#include "tensor.clh"

__kernel void pooling_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  __global const T* source = BASE_OF(const T, in0) + x[0] + at[0] * x[1] + at[1] * x[2];
  REAL sum = 0.0f, most = -INFINITY;
  int counted = 0;
  for (int tap = 0; tap < rest[0]; tap++) {
    int left = tap, from = 0, inside = 1, around = rest[2];
    for (int axis = RANK - 1; axis >= 2; axis--) {
      __global const int* s = rest + 3 + 6 * (axis - 2);
      const int i = at[axis] * s[2] + left % s[1] * s[3] - s[4];
      left /= s[1];
      inside &= i >= 0 && i < s[0];
      around &= i >= -s[4] && i < s[0] + s[5];
      from += i * x[axis + 1];
    }
    counted += inside | around;
    if (inside) {
      const REAL v = LOAD(source, from);
      sum += v;
      most = v > most || v != v ? v : most;
    }
  }
  const REAL r = rest[1] ? sum / (REAL)counted : most;
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}
