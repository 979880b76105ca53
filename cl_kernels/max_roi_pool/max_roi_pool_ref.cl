// The maximum of each of a number of bins of regions (Girshick 2015, Fast R-CNN, section 2.1); 0 of a bin without a pixel.
//
// x [N, C, H, W], regions [R, 5] (image, x1, y1, x2, y2), y [R, C, rows, columns]; float or half. The last pixel belongs to a
// region. Grid: one work-item an element of y, n of them. RANK = 4. table: dims of y, views of y and x, images, height and
// width of x, origin and pitches of the regions. An image that is not there counts as the nearest that is.
// Exact, but for where the corners of a region fall after rounding.
#define RANK 4
#include "tensor.clh"

__kernel void max_roi_pool_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table,
                               const float scale, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  __global const T* region = BASE_OF(const T, in1) + rest[3] + at[0] * rest[4];
  const int image = clamp((int)LOAD(region, 0), 0, rest[0] - 1);
  __global const T* source = BASE_OF(const T, in0) + x[0] + image * x[1] + at[1] * x[2];
  int first[2], last[2];
  for (int axis = 0; axis < 2; axis++) {
    const int size = rest[1 + axis], bins = table[2 + axis], bin = at[2 + axis];
    // Corners far outside are where none of their pixels counts; products of bins and sizes stay numbers.
    const REAL far = 1 << 20;
    const int from = (int)clamp(floor(LOAD(region, (2 - axis) * rest[5]) * scale + 0.5f), -far, far);
    const int to = (int)clamp(floor(LOAD(region, (4 - axis) * rest[5]) * scale + 0.5f), -far, far);
    const long length = max(to - from + 1, 1);
    first[axis] = clamp((int)(bin * length / bins) + from, 0, size);
    last[axis] = clamp((int)(((bin + 1) * length + bins - 1) / bins) + from, 0, size);
  }
  REAL most = -INFINITY;
  for (int i = first[0]; i < last[0]; i++)
    for (int j = first[1]; j < last[1]; j++) {
      const REAL v = LOAD(source, i * x[3] + j * x[4]);
      most = v > most || v != v ? v : most;
    }
  const REAL r = first[0] < last[0] && first[1] < last[1] ? most : 0.0f;
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}
