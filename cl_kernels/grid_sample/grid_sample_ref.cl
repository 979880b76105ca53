// y[n, c, out] = x[n, c] read at the place grid[n, out], mixed from the pixels around it.
//
// Grid: one work-item a place, n of them, which takes all channels. RANK counts n and the axes out. table: dims, view of y
// (of channel 0), view of x (of channel 0 of image n; pitch 0 along out), view of the grid (its first coordinate), channels
// and their pitches in y and x, pitch of coordinates, mode (0 nearest, 1 linear, 2 cubic), padding (0 zeros, 1 border,
// 2 reflection), whether -1 and 1 are centres of pixels, spatial axes, then size and pitch in x of each.
// T, LOAD, STORE as in tensor.clh, for x and y; GRID, LOAD_GRID for the grid (default the same); AXES at most (default 4).
// Error: of the place, (2 |g| + 2) size * 2^-24 pixels, times the slope of x there (5 times it for cubic), and 2 roundings
// a pixel read; nearest: beside a half, either neighbour. The nearest pixel is found before a mirror folds it.
#include "tensor.clh"

#ifndef GRID
  #define GRID T
  #define LOAD_GRID LOAD
#endif

#ifndef AXES
  #define AXES 4
#endif

// A place as near as the image has one; what is no number is at the first pixel.
static REAL nearest(const REAL at, const int size) { return at > 0 ? fmin(at, (REAL)(size - 1)) : 0; }

// A place as mirrors at both borders have it, if there are any, to half a pixel beyond the image.
static REAL folded(const REAL at, const int size, const int padding, const int corners) {
  if (padding == 1) return at;
  const REAL low = corners ? 0.0f : -0.5f, span = corners ? size - 1.0f : (REAL)size;
  if (span <= 0) return 0.0f;
  const REAL way = fmod(fabs(at - low), 2 * span);
  return (way > span ? 2 * span - way : way) + low;
}

// Keys' kernel with a = -3/4, at a distance below 1 and from 1 to 2.
static REAL near_share(const REAL d) { return (1.25f * d - 2.25f) * d * d + 1; }
static REAL far_share(const REAL d) { return ((-0.75f * d + 3.75f) * d - 6) * d + 3; }

// Pixels whose shares are kept for all channels.
#define FEW 16

// The share of a pixel, and where it is from the first of its channel, -1 where there is none; an axis has 2^bits pixels.
static REAL mixed(int tap, const int axes, const int bits, REAL share[][4], int place[][4], int* from) {
  REAL weight = 1;
  *from = 0;
  for (int axis = axes - 1; axis >= 0; axis--, tap >>= bits) {
    const int k = tap & ((1 << bits) - 1);
    weight *= share[axis][k];
    *from = *from < 0 || place[axis][k] < 0 ? -1 : *from + place[axis][k];
  }
  return weight;
}

// Beside the image are zeros: no share of them is NaN.
static REAL pixel(__global const T* source, const int from, const int channel) {
  return from < 0 ? 0 : LOAD(source, from + channel);
}

__kernel void grid_sample_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* grid = x + VIEW;
  __global const int* rest = grid + VIEW;
  const int channels = rest[0], mode = rest[4], padding = rest[5], corners = rest[6], axes = rest[7];
  const int each = 1 << mode;
  int place[AXES][4], taps = 1;
  REAL share[AXES][4];
  for (int axis = 0; axis < axes; axis++) {
    const int size = rest[8 + 2 * axis];
    const REAL g = LOAD_GRID(BASE_OF(const GRID, in1), element(grid, at) + (axes - 1 - axis) * rest[3]);
    REAL v = corners ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
    bool between = true;
    if (mode == 1 && padding > 0) {
      const REAL at = folded(v, size, padding, corners);
      v = nearest(at, size);
      between = v == at;
    }
    v = mode == 0 ? rint(v) : v;
    const REAL low = floor(v), t = v - low;
    if (mode == 0) share[axis][0] = 1;
    if (mode == 1) share[axis][0] = 1 - t, share[axis][1] = t;
    if (mode == 2) {
      share[axis][0] = far_share(t + 1), share[axis][1] = near_share(t);
      share[axis][2] = near_share(1 - t), share[axis][3] = far_share(2 - t);
    }
    for (int k = 0; k < each; k++) {
      REAL p = (mode == 0 ? v : low) + k - (mode == 2);
      bool there = k == 0 || between;
      if (padding == 0) there = p >= 0 && p < size;
      if (padding == 0 && !there) share[axis][k] = 0;
      if (padding > 0) p = rint(nearest(folded(p, size, padding, corners), size));
      place[axis][k] = there ? (int)nearest(p, size) * rest[9 + 2 * axis] : -1;
    }
    taps *= each;
  }
  __global const T* source = BASE_OF(const T, in0) + element(x, at);
  __global T* result = BASE_OF(T, out0) + element(y, at);
  if (taps > FEW) {
    for (int c = 0; c < channels; c++) {
      REAL sum = 0;
      for (int tap = 0; tap < taps; tap++) {
        int from;
        const REAL weight = mixed(tap, axes, mode, share, place, &from);
        sum = fma(weight, pixel(source, from, c * rest[2]), sum);
      }
      STORE(result, c * rest[1], sum);
    }
    return;
  }
  REAL weights[FEW];
  int from[FEW];
  for (int tap = 0; tap < taps; tap++) weights[tap] = mixed(tap, axes, mode, share, place, from + tap);
  const int across = rest[2], down = rest[1];
  if (taps == 4) {
    const REAL w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3];
    for (int c = 0; c < channels; c++, source += across, result += down) {
      REAL sum = fma(w1, pixel(source, from[1], 0), w0 * pixel(source, from[0], 0));
      sum = fma(w3, pixel(source, from[3], 0), fma(w2, pixel(source, from[2], 0), sum));
      STORE(result, 0, sum);
    }
    return;
  }
  for (int c = 0; c < channels; c++) {
    REAL sum = 0;
    for (int tap = 0; tap < taps; tap++) sum = fma(weights[tap], pixel(source, from[tap], c * rest[2]), sum);
    STORE(result, c * rest[1], sum);
  }
}
