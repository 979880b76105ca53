// The sum of windows x[N][C * taps][windows] at their places in images y[N][C][image...].
//
// Grid: one work-item an element of y, n of them; RANK counts the axes of y. table: dims, view of y, origin and pitches of x
// (image, channel, window), spatial axes, then of each: size of the window, stride, dilation, zeros in front, windows.
// T, LOAD, STORE as in tensor.clh. Error: one rounding a window that reaches the element.
#include "tensor.clh"

__kernel void col2im_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  const int axes = x[4];
  __global const int* windows = x + 5;
  int taps = 1;
  for (int axis = 0; axis < axes; axis++) taps *= windows[5 * axis];
  REAL sum = 0;
  for (int tap = 0; tap < taps; tap++) {
    int left = tap, window = 0, below = 1, inside = 1;
    for (int axis = axes - 1; axis >= 0; axis--) {
      __global const int* w = windows + 5 * axis;
      const int k = left % w[0], from = at[2 + axis] + w[3] - k * w[2];
      left /= w[0];
      inside = inside && from >= 0 && from % w[1] == 0 && from / w[1] < w[4];
      window += from / w[1] * below;
      below *= w[4];
    }
    if (inside) sum += LOAD(BASE_OF(const T, in0), x[0] + at[0] * x[1] + (at[1] * taps + tap) * x[2] + window * x[3]);
  }
  STORE(BASE_OF(T, out0), element(y, at), sum);
}
