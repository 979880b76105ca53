// y[n, c, p] = x[n, c] read at the place grid[n, p], mixed from the four pixels around it: linear, two axes, float.
//
// Grid: a work-item for each 16 places that follow each other, n of them, which takes all channels. table: pitches of images in
// x, y and the grid, places of an image, channels, their pitches in x and y, rows and columns of x, pitch of rows, padding
// (0 zeros, 1 border, 2 reflection), whether -1 and 1 are centres of pixels. Places lie side by side in y and the grid.
// Error: as of grid_sample_ref.
#include "tensor.clh"

#define PLACES 16

// A place as near as the image has one; what is no number is at the first pixel.
static float16 nearest(const float16 at, const int size) {
  const float16 none = (float16)(0.0f);
  return min(select(none, at, at > none), (float16)(size - 1.0f));
}

// A place as mirrors at both borders have it, if there are any, to half a pixel beyond the image.
static float16 folded(const float16 at, const int size, const int padding, const int corners) {
  if (padding == 1) return at;
  const float low = corners ? 0.0f : -0.5f, span = corners ? size - 1.0f : (float)size;
  if (span <= 0) return (float16)(0.0f);
  const float16 way = fmod(fabs(at - low), (float16)(2 * span));
  return select(way, 2 * span - way, way > span) + low;
}

// The two pixels around each place along an axis, their shares, and whether there are such pixels: all bits or none.
static void pixels(const float16 g, const int size, const int pitch, const int padding, const int corners, float16 share[2],
                   int16 place[2], int16 there[2]) {
  float16 v = corners ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
  there[0] = there[1] = (int16)(-1);
  if (padding > 0) {
    const float16 at = folded(v, size, padding, corners);
    v = nearest(at, size);
    there[1] = v == at;
  }
  const float16 low = floor(v), t = v - low, none = (float16)(0.0f);
  for (int k = 0; k < 2; k++) {
    float16 p = low + k;
    share[k] = k ? t : 1 - t;
    if (padding == 0) {
      there[k] = p >= none && p < (float16)size;
      share[k] = select(none, share[k], there[k]);
    } else
      p = rint(nearest(folded(p, size, padding, corners), size));
    place[k] = convert_int16(nearest(p, size)) * pitch;
  }
}

// The places of a channel, mixed from four pixels each. Beside the image are zeros, so that no share of them is NaN.
static void mix(__global const float* x, float weight[4][PLACES], int from[4][PLACES], int there[4][PLACES],
                const bool inside, float sums[PLACES]) {
#define PIXEL(tap) (inside || there[tap][i] ? x[from[tap][i]] : 0)
  for (int i = 0; i < PLACES; i++) {
    const float sum = fma(weight[1][i], PIXEL(1), weight[0][i] * PIXEL(0));
    sums[i] = fma(weight[3][i], PIXEL(3), fma(weight[2][i], PIXEL(2), sum));
  }
#undef PIXEL
}

__kernel void grid_sample_rows(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int places = table[3], blocks = (places + PLACES - 1) / PLACES, channels = table[4];
  const int image = id / blocks, first = id % blocks * PLACES, count = min(PLACES, places - first);
  const int across = table[5], down = table[6], padding = table[10], corners = table[11];
  __global const float* grid = BASE_OF(const float, in1) + (long)image * table[2] + 2 * first;
  __global const float* x = BASE_OF(const float, in0) + (long)image * table[0];
  __global float* y = BASE_OF(float, out0) + (long)image * table[1] + first;
  float pairs[2 * PLACES];
  for (int i = 0; i < 2 * PLACES; i++) pairs[i] = i < 2 * count ? grid[i] : 0.0f;
  const float16 a = vload16(0, pairs), b = vload16(1, pairs);
  float16 share_y[2], share_x[2];
  int16 row[2], column[2], there_y[2], there_x[2];
  pixels((float16)(a.odd, b.odd), table[7], table[9], padding, corners, share_y, row, there_y);
  pixels((float16)(a.even, b.even), table[8], 1, padding, corners, share_x, column, there_x);
  float weight[4][PLACES];
  int from[4][PLACES], there[4][PLACES];
  for (int tap = 0; tap < 4; tap++) {
    vstore16(share_x[tap & 1] * share_y[tap >> 1], 0, weight[tap]);
    vstore16(column[tap & 1] + row[tap >> 1], 0, from[tap]);
    vstore16(there_x[tap & 1] & there_y[tap >> 1], 0, there[tap]);
  }
  const bool inside = all(there_x[0] & there_x[1] & there_y[0] & there_y[1]);
  for (int c = 0; c < channels; c++, x += across, y += down) {
    float sums[PLACES];
    if (inside)
      mix(x, weight, from, there, true, sums);
    else
      mix(x, weight, from, there, false, sums);
    if (count == PLACES)
      vstore16(vload16(0, sums), 0, y);
    else
      for (int i = 0; i < count; i++) y[i] = sums[i];
  }
}
