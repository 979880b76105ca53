// Convolution with groups, bias and post-operations for GPUs: an implicit matrix product, 16 sums a work-item.
//
// x [N, C, spatial], w [O, C / groups, kernel], bias [O] or none, y [N, O, spatial], float or half; RANK = 2 + spatial
// axes. The rows of the product are the outputs of a group, its columns the pixels, its k the channels times the taps.
// Grid: (tiles of pixels * 16, tiles of outputs * 16, images * groups), groups of 16 x 16; a group makes 64 x 64 results,
// 16 k at a time. table: as of convolution_ref, with groups and pixels in front of the axes; taps: for each tap its
// offset in x, in w, and its place along each spatial axis.
// Error: k * 2^-24 * sum |x w|, accumulated in float in the order of k, plus the post-operations'.
#include "tensor.clh"

#define TILE 64
#define STEP 16
#define PER 4

__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void convolution_gpu_tiled(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table, __global const int* taps,
    POST_PARAMETERS) {
  __local float rows[STEP][TILE + 1];
  __local float columns[STEP][TILE + 1];
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* w = x + VIEW;
  __global const int* rest = w + VIEW;
  __global const int* axes = rest + 7;
  const int channels = rest[0], outputs = rest[1], tap_count = rest[2], groups = rest[5], pixels = rest[6];
  const int count = channels * tap_count;
  const int tx = get_local_id(0), ty = get_local_id(1), local_id = ty * 16 + tx;
  const int image = get_global_id(2) / groups, group = get_global_id(2) % groups;
  const int o0 = get_group_id(1) * TILE, p0 = get_group_id(0) * TILE;

  // The pixel that this work-item loads: where its window starts, along each axis and in x.
  int start[RANK], at[RANK];
  const int pixel = p0 + local_id % TILE;
  coordinates(min(pixel, pixels - 1), table, 2, RANK, start);
  int base = x[0] + image * x[1] + group * channels * x[2];
  for (int axis = 2; axis < RANK; axis++) {
    start[axis] = start[axis] * axes[5 * (axis - 2) + 2] - axes[5 * (axis - 2) + 4];
    base += start[axis] * x[axis + 1];
  }
  __global const T* source = BASE_OF(const T, in0);
  __global const T* weights = BASE_OF(const T, in1) + w[0] + (group * outputs + o0) * w[1];

  // Channel and tap of the k that this work-item loads next, for the weights and for each row of the pixels.
  int w_channel = local_id % STEP / tap_count, w_tap = local_id % STEP % tap_count, channel[PER], tap[PER];
  for (int i = 0; i < PER; i++) {
    channel[i] = (local_id / TILE + PER * i) / tap_count;
    tap[i] = (local_id / TILE + PER * i) % tap_count;
  }
  const int more_channels = STEP / tap_count, more_taps = STEP % tap_count;

  float sums[PER][PER];
  for (int i = 0; i < PER; i++)
    for (int j = 0; j < PER; j++) sums[i][j] = 0.0f;
  for (int k0 = 0; k0 < count; k0 += STEP) {
    const int with = w_channel * w[2] + taps[w_tap * RANK + 1];
    for (int i = 0; i < PER; i++) {
      const int row = local_id / STEP + 16 * i;
      rows[local_id % STEP][row] =
          o0 + row < outputs && w_channel < channels ? LOAD(weights, with + row * w[1]) : 0.0f;
      __global const int* t = taps + tap[i] * RANK;
      int inside = pixel < pixels && channel[i] < channels;
      for (int axis = 2; axis < RANK; axis++)
        inside &= (uint)(start[axis] + t[axis]) < (uint)axes[5 * (axis - 2)];
      columns[local_id / TILE + PER * i][local_id % TILE] =
          inside ? LOAD(source, base + channel[i] * x[2] + t[0]) : 0.0f;
      tap[i] += more_taps;
      channel[i] += more_channels + (tap[i] >= tap_count);
      tap[i] -= tap[i] >= tap_count ? tap_count : 0;
    }
    w_tap += more_taps;
    w_channel += more_channels + (w_tap >= tap_count);
    w_tap -= w_tap >= tap_count ? tap_count : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < STEP; k++) {
      float p[PER], q[PER];
      for (int i = 0; i < PER; i++) p[i] = rows[k][ty + 16 * i];
      for (int j = 0; j < PER; j++) q[j] = columns[k][tx + 16 * j];
      for (int i = 0; i < PER; i++)
        for (int j = 0; j < PER; j++) sums[i][j] = fma(p[i], q[j], sums[i][j]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int j = 0; j < PER; j++) {
    const int p = p0 + tx + 16 * j;
    if (p >= pixels) continue;
    coordinates(p, table, 2, RANK, at);
    at[0] = image;
    for (int i = 0; i < PER; i++) {
      const int o = o0 + ty + 16 * i;
      if (o >= outputs) continue;
      at[1] = group * outputs + o;
      const float sum = sums[i][j] + (rest[3] >= 0 ? LOAD(BASE_OF(const T, in2), rest[3] + at[1] * rest[4]) : 0.0f);
      STORE(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
    }
  }
}
