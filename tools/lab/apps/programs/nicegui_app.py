from nicegui import ui
from starlette.requests import Request


@ui.page('/')
def index(request: Request):
    ui.label('User: ' + request.headers.get('x-user-username', 'none'))
    name = ui.input('Name')
    ui.button('Greet', on_click=lambda: ui.label(f'Hello {name.value}'))
    ui.button('Large', on_click=lambda: ui.label('3000000 ' + 'x' * 3_000_000))

    async def read(event):
        ui.label(f'{len(await event.file.read())} bytes')

    ui.upload(auto_upload=True, on_upload=read)


