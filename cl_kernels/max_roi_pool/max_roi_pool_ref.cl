// The maximum of each of a number of bins of regions (Girshick 2015, Fast R-CNN, section 2.1); 0 of a bin without a pixel.
//
// x [N, C, H, W], regions [R, 5] (image, x1, y1, x2, y2), y [R, C, rows, columns]; float or half. The last pixel belongs to a
// region. Grid: one work-item an element of y, n of them. RANK = 4. table: dims of y, views of y and x, images, height and
// width of x, origin and pitches of the regions. An image that is not there counts as the nearest that is.
// Exact, but for where the corners of a region fall after rounding (roi_bins.clh).
#define RANK 4
#include "tensor.clh"
#include "roi_bins.clh"

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
    const int2 span = roi_bin(LOAD(region, (2 - axis) * rest[5]) * scale, LOAD(region, (4 - axis) * rest[5]) * scale,
                              table[2 + axis], at[2 + axis], rest[1 + axis]);
    first[axis] = span.x, last[axis] = span.y;
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
