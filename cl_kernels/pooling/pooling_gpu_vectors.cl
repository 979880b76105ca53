// Maximum or average of each window, with post-operations, for GPUs: a vector of channels of a pixel a work-item.
//
// x and y [N, C, H, W] in byxf or b_fs_yx_fsv4, float or half; C is a multiple of LANES,
// which is 4, or 8 of halves in byxf.
// Grid: one work-item a vector of y, n of them. RANK = 5: n, y, x, block, channel. table: dims (the last is 1), views of
// y and x, height and width of the window, whether the average, whether pads count, height and width of x, strides,
// dilations, pads before, pads behind. Padding never counts for a maximum; NaN is larger than any number.
// Error: taps * 2^-24 * mean |x|; a maximum is exact.
#define RANK 5
#include "vectors.clh"

__kernel void pooling_gpu_vectors(const int n, TENSOR(in0), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  const int height = rest[4], width = rest[5];
  const int top = at[1] * rest[6] - rest[10], left = at[2] * rest[7] - rest[11];
  __global const T* source = BASE_OF(const T, in0) + x[0] + at[0] * x[1] + at[3] * x[4];
  VECTOR sum = (VECTOR)(0.0f), most = (VECTOR)(-INFINITY);
  int counted = 0;
  for (int i = 0; i < rest[0]; i++) {
    const int down = top + i * rest[8];
    const int there = down >= 0 && down < height;
    const int around = rest[3] && down >= -rest[10] && down < height + rest[12];
    for (int j = 0; j < rest[1]; j++) {
      const int right = left + j * rest[9];
      const int inside = there && right >= 0 && right < width;
      counted += inside || (around && right >= -rest[11] && right < width + rest[13]);
      if (!inside) continue;
      const VECTOR v = LOADV(source, down * x[2] + right * x[3]);
      sum += v;
      most = v > most || v != v ? v : most;
    }
  }
  const VECTOR r = rest[2] ? sum / (float)counted : most;
  STOREV(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}
