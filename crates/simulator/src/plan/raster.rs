//! A pixel image for plotters, and its encoding as PNG. Text uses an embedded bitmap font, because
//! plotters would otherwise need a font of the machine.

use std::convert::Infallible;

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use plotters::prelude::DrawingBackend;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendTextStyle, DrawingErrorKind};

const WEIGHT: FontWeight = FontWeight::Regular;
const HEIGHT: RasterHeight = RasterHeight::Size16;
/// Replaces characters that the font lacks.
const UNKNOWN: char = '?';
const CHANNELS: usize = 3;

/// Pixels of red, green and blue.
#[derive(Debug)]
pub(super) struct Raster<'a> {
    width: u32,
    height: u32,
    pixels: &'a mut Vec<u8>,
}

impl<'a> Raster<'a> {
    pub(super) fn on(pixels: &'a mut Vec<u8>, width: u32, height: u32) -> Self {
        pixels.clear();
        pixels.resize((width as usize) * (height as usize) * CHANNELS, 255);
        Self { width, height, pixels }
    }

    /// Blends a colour into a pixel; positions outside the image are ignored.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255")]
    fn lay(&mut self, (x, y): BackendCoord, (red, green, blue): (u8, u8, u8), alpha: f64) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        if x >= self.width || y >= self.height {
            return;
        }
        let at = ((y as usize) * (self.width as usize) + (x as usize)) * CHANNELS;
        for (pixel, over) in self.pixels[at..at + CHANNELS].iter_mut().zip([red, green, blue]) {
            let mixed = f64::from(*pixel) * (1.0 - alpha) + f64::from(over) * alpha;
            *pixel = mixed.round().clamp(0.0, 255.0) as u8;
        }
    }

    /// Width and height of a line of text, before any rotation.
    fn extent(text: &str) -> (i32, i32) {
        let width = get_raster_width(WEIGHT, HEIGHT) * text.chars().count();
        (i32::try_from(width).unwrap_or(i32::MAX), i32::try_from(HEIGHT.val()).unwrap_or(i32::MAX))
    }

    fn write(&mut self, text: &str, style: &impl BackendTextStyle, at: BackendCoord) {
        let BackendColor { rgb, alpha } = style.color();
        let (width, height) = Self::extent(text);
        let (wide, high) = turned_size(&style.transform(), width, height);
        let anchor = style.anchor();
        let left = at.0
            - match anchor.h_pos {
                HPos::Left => 0,
                HPos::Center => wide / 2,
                HPos::Right => wide,
            };
        let top = at.1
            - match anchor.v_pos {
                VPos::Top => 0,
                VPos::Center => high / 2,
                VPos::Bottom => high,
            };
        let mut from = 0_i32;
        for letter in text.chars() {
            let drawn = get_raster(letter, WEIGHT, HEIGHT);
            let Some(drawn) = drawn.or_else(|| get_raster(UNKNOWN, WEIGHT, HEIGHT)) else { return };
            for (y, row) in (0_i32..).zip(drawn.raster()) {
                for (x, part) in (0_i32..).zip(*row) {
                    let (x, y) = turned(&style.transform(), (from + x, y), (width, height));
                    self.lay((left + x, top + y), rgb, alpha * f64::from(*part) / 255.0);
                }
            }
            from += i32::try_from(drawn.width()).unwrap_or(0);
        }
    }
}

fn turned_size(transform: &FontTransform, width: i32, height: i32) -> (i32, i32) {
    match transform {
        FontTransform::Rotate90 | FontTransform::Rotate270 => (height, width),
        FontTransform::None | FontTransform::Rotate180 => (width, height),
    }
}

/// The position of a text's pixel after the rotation.
fn turned(
    transform: &FontTransform,
    (x, y): BackendCoord,
    (width, height): (i32, i32),
) -> BackendCoord {
    match transform {
        FontTransform::None => (x, y),
        FontTransform::Rotate90 => (height - 1 - y, x),
        FontTransform::Rotate180 => (width - 1 - x, height - 1 - y),
        FontTransform::Rotate270 => (y, width - 1 - x),
    }
}

/// Encodes the pixels of a [`Raster`] of this size as PNG.
pub(super) fn png(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, png::EncodingError> {
    let mut written = Vec::new();
    let mut encoder = png::Encoder::new(&mut written, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(written)
}

type DrawResult = Result<(), DrawingErrorKind<Infallible>>;

impl DrawingBackend for Raster<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    fn ensure_prepared(&mut self) -> DrawResult {
        Ok(())
    }

    fn present(&mut self) -> DrawResult {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> DrawResult {
        self.lay(at, colour.rgb, colour.alpha);
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        at: BackendCoord,
    ) -> DrawResult {
        self.write(text, style, at);
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let (width, height) = Self::extent(text);
        let (wide, high) = turned_size(&style.transform(), width, height);
        Ok((wide.unsigned_abs(), high.unsigned_abs()))
    }
}
